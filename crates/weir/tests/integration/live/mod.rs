//! Running servers: probed and let go under load, and what `kill -9` of either side leaves.

mod server;

mod kill;
mod redis;
