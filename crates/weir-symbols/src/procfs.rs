//! Reads files of procfs, which have no length: std reads those in pieces that grow from 32 bytes, and the kernel writes a file anew for some.
//!
//! In: a path. Out: the text, by two calls of read(2) as a rule: one that has all, and one that has no more.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Room for most files at once.
pub(crate) const BYTES: usize = 16 << 10;

/// The text of the file at `path`.
pub fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(BYTES);
    File::open(path)?.read_to_string(&mut text)?;
    text.shrink_to_fit();
    Ok(text)
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_what_std_reads() {
        for path in ["/proc/self/limits", "/proc/self/cgroup", "/proc/filesystems"] {
            assert_eq!(super::text(path).unwrap(), std::fs::read_to_string(path).unwrap());
        }
        assert!(super::text("/proc/self/none").is_err());
    }
}
