//! Traces that are sent through a pipe: the folder at the other end is that of a trace written to a folder; where the pipe is cut, its packets up to there.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use testkit::paths;
use weir_trace::class::Scope;
use weir_trace::pipe::frame::{FRAME_HEAD_BYTES, Frame, STREAM_HEAD_BYTES, head};
use weir_trace::pipe::{Receiver, Sender};
use weir_trace::write::{Folder, Format, Stream};
use weir_trace::{Follower, Message, Reader};

use crate::follow::{class, record};

const LIMIT: Duration = Duration::from_secs(60);

/// A pipe whose reader takes everything.
#[derive(Clone, Default)]
struct Sent(Arc<Mutex<Vec<u8>>>);

impl Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A trace of two streams with some packets each, one of which has lost events.
fn write(folder: &Folder) {
    let stream = |id: u32| folder.stream(&format!("stream_{id}"), 0, id.into(), id, 256).unwrap();
    let mut streams: [Stream; 2] = [0, 1].map(stream);
    for time in 0..200 {
        record(&mut streams[time as usize % 2], time);
    }
    streams[1].lost(3);
    for stream in streams {
        stream.finish(1000).unwrap();
    }
}

fn sent() -> Vec<u8> {
    let to = Sent::default();
    let pipe = Sender::start(to.clone(), "a pipe").unwrap();
    write(&Folder::send(&pipe, &class("weir"), Format::Ctf2).unwrap());
    pipe.finish(LIMIT).unwrap();
    to.0.lock().unwrap().clone()
}

fn receiver(name: &str) -> (Receiver, PathBuf) {
    let folder = paths::fresh("pipe", name);
    (Receiver::new(Path::new("the network"), &folder).unwrap(), folder)
}

/// The files of a folder, by name.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entry =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap());
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| entry(file.unwrap())).collect();
    files.sort();
    files
}

/// Numbers of events; the rest of the messages as texts.
fn numbers(folder: &Path) -> (Vec<u64>, Vec<String>) {
    let mut reader = Reader::open(&[folder.to_owned()]).unwrap();
    let (mut numbers, mut others) = (Vec::new(), Vec::new());
    while let Some(message) = reader.next() {
        match message {
            Message::Event(event) => {
                let (_, mut values) = event.scope(Scope::Payload).unwrap();
                numbers.push(values.word());
            }
            Message::Lost(loss, _) => others.push(format!("lost {:?}", loss.count)),
            Message::Damage(error) => others.push(error.to_string()),
        }
    }
    (numbers, others)
}

#[test]
fn what_is_received_is_what_a_folder_has() {
    let written = paths::fresh("pipe", "written");
    write(&Folder::create(&written, &class("weir"), Format::Ctf2).unwrap());
    let bytes = sent();
    for piece in [1, 100, bytes.len()] {
        let (mut receiver, folder) = receiver("whole");
        bytes.chunks(piece).for_each(|bytes| receiver.take(bytes).unwrap());
        assert!(receiver.is_over() && receiver.is_described());
        receiver.end().unwrap();
        assert!(files(&folder) == files(&written));
        let packets: usize = files(&written).iter().skip(1).map(|(_, bytes)| bytes.len()).sum();
        assert_eq!(receiver.bytes(), packets as u64);
        fs::remove_dir_all(folder).unwrap();
    }
    let (numbers, others) = numbers(&written);
    assert!(numbers.into_iter().eq(0..200));
    assert_eq!(others, ["lost Some(3)"]);
    fs::remove_dir_all(written).unwrap();
}

/// Where frames end, in bytes of the stream.
fn ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = vec![STREAM_HEAD_BYTES];
    while let Some(rest) = bytes.get(ends[ends.len() - 1]..).filter(|rest| !rest.is_empty()) {
        let word = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().unwrap()) as usize;
        ends.push(ends[ends.len() - 1] + FRAME_HEAD_BYTES + word(4) + word(8));
    }
    ends
}

#[test]
fn a_stream_that_is_cut_is_read_up_to_there() {
    let bytes = sent();
    let ends = ends(&bytes);
    assert!(ends.len() > 15 && ends.last() == Some(&bytes.len()));
    let mut before = Vec::new();
    for (index, end) in ends.iter().enumerate() {
        for cut in [*end, (end + 5).min(bytes.len()), (end + FRAME_HEAD_BYTES + 9).min(bytes.len())] {
            let (mut receiver, folder) = receiver("cut");
            receiver.take(&bytes[..cut]).unwrap();
            assert_eq!(receiver.end().is_ok(), cut == bytes.len(), "{cut}");
            assert_eq!(receiver.is_described(), index > 0, "{cut}");
            if index > 0 {
                // Of each stream all packets up to the cut.
                let (numbers, others) = numbers(&folder);
                assert!(others.is_empty() || others == ["lost Some(3)"], "{cut}: {others:?}");
                for parity in [0, 1] {
                    let of_stream: Vec<u64> = numbers.iter().copied().filter(|n| n % 2 == parity).collect();
                    assert!(
                        of_stream
                            .iter()
                            .copied()
                            .eq((0..200).filter(|n| n % 2 == parity).take(of_stream.len()))
                    );
                }
                assert!(numbers.len() >= before.len(), "{cut}");
                before = numbers;
            }
            fs::remove_dir_all(folder).unwrap();
        }
    }
    assert_eq!(before.len(), 200);
}

#[test]
fn what_a_stranger_sends_goes_nowhere_else_and_is_named() {
    let packets = |name, offset, content: &'static [u8]| Frame::Packets { name, offset, content }.bytes();
    let check = |frames: &[Vec<u8>], at: usize, wanted: &str| {
        let (mut receiver, folder) = receiver("hostile");
        let stream = [&[head().to_vec()], frames].concat().concat();
        let said = receiver.take(&stream).unwrap_err().to_string();
        let wanted = format!("the network: at byte {}: {wanted}", 16 + frames[..at].concat().len());
        assert!(said.starts_with(&wanted), "{said}");
        // What came before it is there.
        assert_eq!(files(&folder).len(), at, "{said}");
        fs::remove_dir_all(folder).unwrap();
    };
    let first = packets("stream_0", 0, b"1234");
    check(&[packets("../x", 0, b"1")], 0, "`../x` is no name");
    check(&[packets("/etc/passwd", 0, b"1")], 0, "`/etc/passwd` is no name");
    check(&[first.clone(), packets(".metadata", 0, b"1")], 1, "`.metadata` is no name");
    check(&[packets("stream_0", 1, b"1")], 0, "packets for byte 1 of stream_0, which has 0");
    check(&[first.clone(), packets("stream_0", 0, b"1")], 1, "packets for byte 0 of stream_0, which has 4");
    check(&[first.clone(), packets("stream_0", u64::MAX, b"1")], 1, "packets for byte 18446744073709551615");
    check(&[first, vec![9; 24]], 1, "there is no frame of kind 151587081");
}

#[test]
fn a_folder_that_has_something_is_not_received_into() {
    let (_, folder) = receiver("full");
    fs::write(folder.join("stream_0"), "mine").unwrap();
    let said = Receiver::new(Path::new("-"), &folder).unwrap_err().to_string();
    assert!(said.contains("it is not empty"), "{said}");
    assert_eq!(files(&folder), [("stream_0".to_owned(), b"mine".to_vec())]);
    fs::remove_dir_all(folder).unwrap();
}

/// The folder may be another user's, who puts links there at any time.
#[test]
fn no_link_in_the_folder_leads_elsewhere() {
    let other = paths::fresh("pipe", "other");
    fs::write(&other, "mine").unwrap();
    let bytes = sent();
    let ends = ends(&bytes);
    for (before, link, wanted) in
        [(0, ".metadata", None), (0, "stream_0", Some("exists")), (8, "stream_0", Some("in its place"))]
    {
        let (mut receiver, folder) = receiver("links");
        let _ = receiver.take(&bytes[..ends[before]]);
        let _ = fs::remove_file(folder.join(link));
        std::os::unix::fs::symlink(&other, folder.join(link)).unwrap();
        let taken = receiver.take(&bytes[ends[before]..]);
        match wanted {
            None => assert!(taken.is_ok() && receiver.is_described(), "{taken:?}"),
            Some(wanted) => {
                let source = std::error::Error::source(&taken.unwrap_err()).unwrap().to_string();
                assert!(source.contains(wanted), "{source}");
            }
        }
        assert_eq!(fs::read(&other).unwrap(), b"mine", "{link}");
        fs::remove_dir_all(folder).unwrap();
    }
    fs::remove_file(other).unwrap();
}

/// Who follows the folder knows by its lock when nothing more comes, and says what it has read.
#[test]
fn it_is_followed_while_it_comes() {
    let (bytes, begin) = (sent(), Instant::now());
    let half = ends(&bytes)[8];
    let (mut receiver, folder) = receiver("followed");
    receiver.take(&bytes[..half]).unwrap();
    let mut follower = Follower::open(std::slice::from_ref(&folder), begin).unwrap();
    let count = |follower: &mut Follower, now| {
        follower.look(now).unwrap();
        let mut count = 0;
        while let Some(message) = follower.next() {
            count += usize::from(matches!(message, Message::Event(_)));
        }
        count
    };
    let some = count(&mut follower, begin + LIMIT);
    assert!(some > 0 && !follower.is_over());
    let read: u64 = follower.read_so_far().map(|(_, bytes)| bytes).sum();
    assert!(read > 0 && read < receiver.bytes());
    receiver.take(&bytes[half..]).unwrap();
    receiver.end().unwrap();
    assert_eq!(some + count(&mut follower, begin + 2 * LIMIT), 200);
    assert!(follower.is_over());
    fs::remove_dir_all(folder).unwrap();
}
