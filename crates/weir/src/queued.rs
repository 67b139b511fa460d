//! Output to a file, written by a thread of its own: a disk that stalls for a tenth of a second does not hold up who reads rings.
//!
//! In: bytes, by [`Queued`]. Out: the same in the file, later: [`Queue::settle`] waits for it. An error of the file is one of all
//! writes after it.
//!
//! Only for files: the reader of a pipe, or a terminal, has its own pace, and would be shown what is long gone.

use std::io::{self, Write};
use std::mem;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::signal::SigSet;

/// Bytes that are handed over at once.
const PART_BYTES: usize = 64 << 10;

/// LIMIT: so many parts wait for the file, 64 MiB: half a second of five million lines a second. Then writes wait, too.
const PARTS_MAX: usize = 1024;

enum Message {
    Part(Vec<u8>),
    /// Everything before it is written.
    Reached(mpsc::Sender<()>),
}

/// The end that is written to.
pub(crate) struct Queued {
    queue: Queue,
    part: Vec<u8>,
}

/// Who waits for what was written.
#[derive(Clone)]
pub(crate) struct Queue {
    messages: SyncSender<Message>,
    failed: Arc<Mutex<Option<io::Error>>>,
}

impl Queued {
    /// Starts the thread, which ends after its last writer.
    pub(crate) fn start(file: impl Write + Send + 'static) -> io::Result<Queued> {
        let (messages, taken) = mpsc::sync_channel(PARTS_MAX);
        let failed = Arc::default();
        let of_thread = Arc::clone(&failed);
        let run = move || write_all(file, &taken, &of_thread);
        thread::Builder::new().name("weir-output".to_owned()).spawn(run)?;
        Ok(Queued { queue: Queue { messages, failed }, part: Vec::with_capacity(PART_BYTES) })
    }

    pub(crate) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    fn hand_over(&mut self) -> io::Result<()> {
        self.queue.error()?;
        if !self.part.is_empty() {
            let part = mem::replace(&mut self.part, Vec::with_capacity(PART_BYTES));
            // SANITY: the thread ends with the last sender.
            self.queue.messages.send(Message::Part(part)).expect("the thread takes parts");
        }
        Ok(())
    }
}

impl Write for Queued {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.len() + bytes.len() > PART_BYTES {
            self.hand_over()?;
        }
        self.part.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    /// Hands over what there is, and does not wait for the file.
    fn flush(&mut self) -> io::Result<()> {
        self.hand_over()
    }
}

impl Queue {
    /// Waits until all that was flushed is written.
    pub(crate) fn settle(&self) -> io::Result<()> {
        let (reached, is_reached) = mpsc::channel();
        // SANITY: as above.
        self.messages.send(Message::Reached(reached)).expect("the thread takes messages");
        is_reached.recv().expect("the thread answers");
        self.error()
    }

    /// What the file said first.
    fn error(&self) -> io::Result<()> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        failed.as_ref().map_or(Ok(()), |error| {
            Err(error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error))
        })
    }
}

/// Writes what comes, but nothing after a gap.
fn write_all(mut file: impl Write, messages: &Receiver<Message>, failed: &Mutex<Option<io::Error>>) {
    // Signals are for who reads them from a descriptor.
    let _ = SigSet::all().thread_block();
    let mut is_whole = true;
    for message in messages {
        match message {
            Message::Part(part) if is_whole => {
                if let Err(error) = file.write_all(&part).and_then(|()| file.flush()) {
                    is_whole = false;
                    *failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                }
            }
            Message::Part(_) => {}
            // Who asked may have gone.
            Message::Reached(reached) => drop(reached.send(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file that takes so many bytes, and then is full.
    #[derive(Clone)]
    struct Disk {
        content: Arc<Mutex<Vec<u8>>>,
        most: usize,
        stall: std::time::Duration,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // The verdict is of the order, which a slow file shows.
            thread::sleep(self.stall);
            let mut content = self.content.lock().unwrap();
            if content.len() + bytes.len() > self.most {
                return Err(io::ErrorKind::StorageFull.into());
            }
            content.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn disk(most: usize, stall_ms: u64) -> Disk {
        Disk { content: Arc::default(), most, stall: std::time::Duration::from_millis(stall_ms) }
    }

    #[test]
    fn everything_is_written_in_order_once_it_is_settled() {
        let disk = disk(usize::MAX, 1);
        let mut out = Queued::start(disk.clone()).unwrap();
        let mut want = Vec::new();
        for number in 0..40_000 {
            let line = format!("line {number}\n");
            want.extend_from_slice(line.as_bytes());
            out.write_all(line.as_bytes()).unwrap();
            if number % 10_000 == 7 {
                out.flush().unwrap();
                out.queue().settle().unwrap();
                assert_eq!(*disk.content.lock().unwrap(), want);
            }
        }
        // More than a part at once.
        let long = vec![b'x'; 3 * PART_BYTES];
        out.write_all(&long).unwrap();
        out.flush().unwrap();
        out.queue().settle().unwrap();
        assert_eq!(*disk.content.lock().unwrap(), [want, long].concat());
    }

    #[test]
    fn a_file_that_is_full_takes_nothing_more() {
        let disk = disk(10, 0);
        let mut out = Queued::start(disk.clone()).unwrap();
        out.write_all(b"0123456789").unwrap();
        out.flush().unwrap();
        out.queue().settle().unwrap();
        out.write_all(b"ab").unwrap();
        out.flush().unwrap();
        assert_eq!(out.queue().settle().unwrap_err().kind(), io::ErrorKind::StorageFull);
        out.write_all(b"c").unwrap();
        assert_eq!(out.flush().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(out.queue().settle().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(*disk.content.lock().unwrap(), b"0123456789");
    }
}
