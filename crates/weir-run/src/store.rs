//! Where the maps of a run's programs are: in the segment that weir shares with traced processes, or in the kernel.
//!
//! In: numbers of maps, keys. Out: values; of a map with a value for each CPU their sum, word by word.

use std::fmt;

use weir_codegen::{GLOBAL_BYTES, GLOBAL_COMMAND, GLOBAL_START};
use weir_rt::segment::Segment;

/// The maps of a run.
pub(crate) trait Store: fmt::Debug {
    fn lookup(&self, map: u32, key: &[u8]) -> Option<Vec<u8>>;
    /// Every key with its value.
    fn entries(&self, map: u32) -> Vec<(Vec<u8>, Vec<u8>)>;
    /// Sets a value of an array: its keys are always there.
    fn set(&self, map: u32, key: &[u8], value: &[u8]);
    /// Takes every key out; the values of an array become zeros.
    fn clear(&self, map: u32);
    /// Sets every value to zeros.
    fn zero(&self, map: u32);
}

/// The word at a byte of a value; 0 where there is none.
pub(crate) fn word(value: &[u8], at: i32) -> u64 {
    let bytes = value.get(at as usize..).and_then(|rest| rest.first_chunk());
    bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The value of a run's globals when it begins: `now` is a time of CLOCK_MONOTONIC, `command` the process that it has started.
pub(crate) fn globals(now: u64, command: Option<i32>) -> Vec<u8> {
    let mut value = vec![0; GLOBAL_BYTES as usize];
    value[GLOBAL_START as usize..][..8].copy_from_slice(&now.to_le_bytes());
    value[GLOBAL_COMMAND as usize..][..8].copy_from_slice(&(command.unwrap_or(0) as u64).to_le_bytes());
    value
}

impl Store for Segment {
    fn lookup(&self, map: u32, key: &[u8]) -> Option<Vec<u8>> {
        self.map(map as usize).lookup(key)
    }

    fn entries(&self, map: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.map(map as usize).entries()
    }

    fn set(&self, map: u32, key: &[u8], value: &[u8]) {
        let _ = self.map(map as usize).update(key, value, 0);
    }

    fn clear(&self, map: u32) {
        self.map(map as usize).clear();
    }

    fn zero(&self, map: u32) {
        self.map(map as usize).zero();
    }
}
