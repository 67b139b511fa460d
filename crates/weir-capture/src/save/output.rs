//! What is written to: a file that can be cut, or a pipe.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

pub(super) enum Output<'w> {
    File(File),
    Pipe(Box<dyn Write + 'w>),
}

impl Output<'_> {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        Ok(Output::File(File::create(path)?))
    }

    /// Cuts a file after so many bytes. What cannot be cut (a device, a named pipe) stays as it is.
    pub(super) fn cut(&self, bytes: u64) {
        if let Output::File(file) = self {
            let _ = file.set_len(bytes);
        }
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Output::File(file) => file.write(bytes),
            Output::Pipe(pipe) => pipe.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Output::File(file) => file.flush(),
            Output::Pipe(pipe) => pipe.flush(),
        }
    }
}
