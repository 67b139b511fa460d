//! The bytes of a trace that is sent: a head, then frames. All numbers are little-endian.
//!
//! | bytes of the head | are |
//! |---|---|
//! | 0–12 | `\x89weirctf\r\n\x1a\n`: a transfer that changes the ends of lines is seen here |
//! | 12–16 | the version, 1 |
//!
//! | bytes of a frame | are |
//! |---|---|
//! | 0–4 | its kind |
//! | 4–8 | N, the length of the file's name |
//! | 8–12 | L, the length of the content |
//! | 12–16 | 0 |
//! | 16–24 | where in the file the content begins |
//! | 24– | N bytes of name, L bytes of content |
//!
//! | kind | is | N | L | begins at |
//! |---|---|---|---|---|
//! | 1 | the description (the file `metadata`), in place of the one before | 0 | up to [`METADATA_BYTES_MAX`] | 0 |
//! | 2 | packets of a stream | up to [`NAME_BYTES_MAX`] | up to [`CONTENT_BYTES_MAX`] | where the file ends |
//! | 3 | nothing new: the sender is alive | 0 | 0 | 0 |
//! | 4 | the end; nothing follows | 0 | 0 | 0 |

use crate::limits::{CONTENT_BYTES_MAX, METADATA_BYTES_MAX, NAME_BYTES_MAX};

/// What a stream begins with.
pub const MAGIC: [u8; 12] = *b"\x89weirctf\r\n\x1a\n";
/// Of this description of it.
pub const VERSION: u32 = 1;
/// Bytes of the stream's head.
pub const STREAM_HEAD_BYTES: usize = 16;
/// Bytes of a frame before its name.
pub const FRAME_HEAD_BYTES: usize = 24;

const DESCRIPTION: u32 = 1;
const PACKETS: u32 = 2;
const ALIVE: u32 = 3;
const END: u32 = 4;

/// What one frame says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame<'a> {
    /// The metadata, from now on.
    Description(&'a [u8]),
    /// More of a stream's file.
    Packets {
        /// Of the file.
        name: &'a str,
        /// Bytes of it before these.
        offset: u64,
        /// The packets.
        content: &'a [u8],
    },
    /// There is nothing new.
    Alive,
    /// There will be nothing more.
    End,
}

/// The head of a stream.
pub fn head() -> [u8; STREAM_HEAD_BYTES] {
    let mut head = [0; STREAM_HEAD_BYTES];
    let (magic, version) = head.split_at_mut(MAGIC.len());
    magic.copy_from_slice(&MAGIC);
    version.copy_from_slice(&VERSION.to_le_bytes());
    head
}

impl Frame<'_> {
    /// Its bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let (kind, name, offset, content): (u32, &str, u64, &[u8]) = match *self {
            Frame::Description(content) => (DESCRIPTION, "", 0, content),
            Frame::Packets { name, offset, content } => (PACKETS, name, offset, content),
            Frame::Alive => (ALIVE, "", 0, &[]),
            Frame::End => (END, "", 0, &[]),
        };
        let mut bytes = Vec::with_capacity(FRAME_HEAD_BYTES + name.len() + content.len());
        for word in [kind, name.len() as u32, content.len() as u32, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(offset.to_le_bytes());
        bytes.extend(name.as_bytes());
        bytes.extend(content);
        bytes
    }
}

/// Bytes as they come → frames.
#[derive(Debug, Default)]
pub struct Decoder {
    held: Vec<u8>,
    /// Of these so many were returned.
    taken: usize,
    /// Bytes of the stream before those that are held.
    before: u64,
    has_begun: bool,
    has_ended: bool,
}

/// What is wrong with a stream, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// In bytes of the stream.
    pub offset: u64,
    /// What is wrong there.
    pub message: String,
}

impl Decoder {
    /// Adds bytes that follow those before.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.held.drain(..self.taken);
        self.before += self.taken as u64;
        self.taken = 0;
        self.held.extend_from_slice(bytes);
    }

    /// The next frame, once it is whole, and where it begins in bytes of the stream.
    #[expect(clippy::should_implement_trait, reason = "what it returns borrows the bytes")]
    pub fn next(&mut self) -> Result<Option<(u64, Frame<'_>)>, Fault> {
        if !self.has_begun && !self.begin()? {
            return Ok(None);
        }
        let at = self.taken;
        let rest = &self.held[at..];
        let wrong = |message: String| Fault { offset: self.before + at as u64, message };
        if self.has_ended {
            return match rest.is_empty() {
                true => Ok(None),
                false => Err(wrong("something follows the end of the trace".to_owned())),
            };
        }
        let Some((head, rest)) = rest.split_first_chunk::<FRAME_HEAD_BYTES>() else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (kind, name_bytes, content_bytes) = (word(0), word(4) as usize, word(8) as usize);
        let offset = u64::from(word(16)) | u64::from(word(20)) << 32;
        let (name_max, content_max) = match kind {
            DESCRIPTION => (0, METADATA_BYTES_MAX as usize),
            PACKETS => (NAME_BYTES_MAX, CONTENT_BYTES_MAX),
            ALIVE | END => (0, 0),
            other => return Err(wrong(format!("there is no frame of kind {other}"))),
        };
        if name_bytes > name_max {
            return Err(wrong(format!("a name of {name_bytes} bytes, where {name_max} is the most")));
        }
        if content_bytes > content_max {
            return Err(wrong(format!("a frame of {content_bytes} bytes, where {content_max} is the most")));
        }
        if word(12) != 0 || kind != PACKETS && offset != 0 {
            return Err(wrong("what must be 0 in a frame is not".to_owned()));
        }
        let Some(body) = rest.get(..name_bytes + content_bytes) else { return Ok(None) };
        let (name, content) = body.split_at(name_bytes);
        let frame = match kind {
            DESCRIPTION => Frame::Description(content),
            PACKETS => Frame::Packets { name: plain(name).map_err(wrong)?, offset, content },
            ALIVE => Frame::Alive,
            _ => Frame::End,
        };
        self.has_ended = kind == END;
        self.taken += FRAME_HEAD_BYTES + name_bytes + content_bytes;
        Ok(Some((self.before + at as u64, frame)))
    }

    /// Whether the stream may end here.
    pub fn end(&self) -> Result<(), Fault> {
        let offset = self.before + self.held.len() as u64;
        let wrong = |message: &str| Err(Fault { offset, message: message.to_owned() });
        match (self.has_ended, self.has_begun) {
            (true, _) => Ok(()),
            (_, true) => wrong("the trace is cut: what sent it has ended, or the connection"),
            (_, false) if offset == 0 => wrong("nothing came: no trace was sent"),
            (_, false) => wrong("it ends before a trace begins"),
        }
    }

    /// Takes the head, once it is whole.
    fn begin(&mut self) -> Result<bool, Fault> {
        let wrong =
            |offset: usize, message: &str| Fault { offset: offset as u64, message: message.to_owned() };
        let known = self.held.iter().zip(&MAGIC).take_while(|(byte, wanted)| byte == wanted).count();
        if known < MAGIC.len().min(self.held.len()) {
            return Err(match known {
                0..8 => wrong(0, "this is no trace that `weir record --to -` has sent"),
                _ => wrong(known, "the ends of lines were changed on the way: leave out `-t` of ssh"),
            });
        }
        let Some(head) = self.held.first_chunk::<STREAM_HEAD_BYTES>() else { return Ok(false) };
        let version = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);
        if version != VERSION {
            let message = format!("a trace of version {version}, where this weir reads version {VERSION}");
            return Err(wrong(MAGIC.len(), &message));
        }
        (self.has_begun, self.taken) = (true, STREAM_HEAD_BYTES);
        Ok(true)
    }
}

/// A name that is one of a stream's file, and of no other: letters, digits, `_`, `-` and `.`, which it does not begin with.
fn plain(name: &[u8]) -> Result<&str, String> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let is_free = name != b"metadata" && !matches!(name.first(), None | Some(b'.' | b'-'));
    match str::from_utf8(name) {
        Ok(text) if is_free && name.iter().all(is_plain) => Ok(text),
        _ => Err(format!("`{}` is no name of a stream's file", name.escape_ascii())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of the bytes, which come in pieces of so many; and what is wrong with them.
    fn read(bytes: &[u8], piece: usize) -> (Vec<String>, Result<(), Fault>) {
        let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
        for bytes in bytes.chunks(piece) {
            decoder.feed(bytes);
            loop {
                match decoder.next() {
                    Ok(Some((_, frame))) => frames.push(format!("{frame:?}")),
                    Ok(None) => break,
                    Err(fault) => return (frames, Err(fault)),
                }
            }
        }
        (frames, decoder.end())
    }

    const FRAMES: [Frame<'_>; 5] = [
        Frame::Description(b"/* CTF 1.8 */"),
        Frame::Packets { name: "stream_0", offset: 0, content: b"a packet" },
        Frame::Alive,
        Frame::Packets { name: "stream_0", offset: 8, content: b"another" },
        Frame::End,
    ];

    fn whole() -> Vec<u8> {
        let mut bytes = head().to_vec();
        FRAMES.iter().for_each(|frame| bytes.extend(frame.bytes()));
        bytes
    }

    #[test]
    fn frames_are_the_same_in_pieces_of_any_size() {
        let bytes = whole();
        let wanted: Vec<String> = FRAMES.iter().map(|frame| format!("{frame:?}")).collect();
        for piece in [1, 2, 3, 7, 24, 25, bytes.len()] {
            assert_eq!(read(&bytes, piece), (wanted.clone(), Ok(())), "{piece}");
        }
    }

    #[test]
    fn a_stream_that_is_cut_has_the_frames_before_and_says_so() {
        let bytes = whole();
        let mut ends = vec![STREAM_HEAD_BYTES];
        for frame in FRAMES {
            ends.push(ends[ends.len() - 1] + frame.bytes().len());
        }
        for cut in 0..bytes.len() {
            let (frames, end) = read(&bytes[..cut], 10);
            assert_eq!(frames.len(), ends.iter().skip(1).filter(|end| **end <= cut).count(), "{cut}");
            let fault = end.expect_err("it is cut");
            assert_eq!(fault.offset, cut as u64);
            let wanted = match cut {
                0 => "nothing came",
                1..16 => "before a trace begins",
                _ => "the trace is cut",
            };
            assert!(fault.message.contains(wanted), "{cut}: {fault:?}");
        }
    }

    #[test]
    fn what_is_no_such_stream_is_refused() {
        let check = |bytes: &[u8], offset: u64, wanted: &str| {
            let fault = read(bytes, 5).1.expect_err(wanted);
            assert!(fault.offset == offset && fault.message.contains(wanted), "{fault:?}");
        };
        check(b"Welcome to host!\r\n", 0, "no trace that `weir record --to -`");
        check(b"\x89weirctf\r\r\n\x1a\r\n\x01\0\0\0", 9, "`-t` of ssh");
        check(b"\x89weirctf\n\x1a\n\x01\0\0\0", 8, "`-t` of ssh");
        check(b"\x89weirctf\r\n\x1a\n\x02\0\0\0", 12, "version 2, where this weir reads version 1");
        check(&[whole(), b"x".to_vec()].concat(), whole().len() as u64, "follows the end");
        check(&[whole(), whole()].concat(), whole().len() as u64, "follows the end");
    }

    #[test]
    fn hostile_frames_are_refused() {
        let frame = |words: [u32; 6], rest: &[u8]| {
            let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            [&head()[..], &words, rest].concat()
        };
        let check = |bytes: Vec<u8>, wanted: &str| {
            let fault = read(&bytes, 4096).1.expect_err(wanted);
            assert!(fault.offset == 16 && fault.message.contains(wanted), "{fault:?}");
        };
        check(frame([0, 0, 0, 0, 0, 0], b""), "no frame of kind 0");
        check(frame([5, 0, 0, 0, 0, 0], b""), "no frame of kind 5");
        check(frame([2, 65, 0, 0, 0, 0], b""), "a name of 65 bytes, where 64 is the most");
        check(frame([2, u32::MAX, 0, 0, 0, 0], b""), "a name of 4294967295 bytes");
        check(frame([1, 1, 0, 0, 0, 0], b"x"), "a name of 1 bytes, where 0 is the most");
        check(frame([2, 1, u32::MAX, 0, 0, 0], b"x"), "a frame of 4294967295 bytes");
        check(frame([1, 0, (64 << 20) + 1, 0, 0, 0], b""), "where 67108864 is the most");
        check(frame([3, 0, 1, 0, 0, 0], b"x"), "a frame of 1 bytes, where 0");
        check(frame([4, 0, 0, 1, 0, 0], b""), "must be 0");
        check(frame([1, 0, 0, 0, 1, 0], b""), "must be 0");
        check(frame([4, 0, 0, 0, 0, 1], b""), "must be 0");
        let names: [&[u8]; 13] = [
            b"",
            b".",
            b"..",
            b".x",
            b"-x",
            b"a/b",
            b"/etc/passwd",
            b"../x",
            b"a\0",
            b"a b",
            b"\xff",
            b"\xc3\xa4",
            b"metadata",
        ];
        for name in names {
            check(frame([2, name.len() as u32, 0, 0, 0, 0], name), "no name of a stream's file");
        }
    }

    /// What a frame claims to have is not memory before it has come.
    #[test]
    fn a_large_claim_takes_no_memory() {
        let mut decoder = Decoder::default();
        decoder.feed(&head());
        let words = [2, 1, CONTENT_BYTES_MAX as u32, 0, 0, 0].map(u32::to_le_bytes).concat();
        decoder.feed(&words);
        assert_eq!(decoder.next(), Ok(None));
        assert!(decoder.held.capacity() < 4096);
    }
}
