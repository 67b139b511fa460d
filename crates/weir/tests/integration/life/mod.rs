//! What becomes of processes while weir runs, from the command line: what they load and unload, whom they start, what they
//! execute, what becomes of the files that they run, and the memory that they have left; what weirs do to each other; and which
//! processes can be traced at all: how they were linked, where they live, what may be done in them, what an administrator
//! allows, what the log and other weirs are told of it, and whose runtime they have.

mod check;
pub(crate) mod worker;

mod audit;
mod busy;
mod deleted;
mod exec;
mod family;
mod forked;
mod go;
mod held;
mod idle;
mod linkage;
mod loads;
mod managed;
mod memory;
mod namespaces;
mod permissions;
mod policy;
mod rivals;
mod seccomp;
mod selected;
mod stopped;
mod storms;
mod told;
