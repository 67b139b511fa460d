//! Running servers: probed and let go under load, and what `kill -9` of either side leaves.

pub(crate) mod server;

mod kill;
mod redis;
