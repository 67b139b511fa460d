//! [`framed`]: what is inside of a block → the whole block, in little-endian order.

use crate::codes::{END, padded};

/// Why something has no room in the format.
pub(super) type Refused = String;

/// Type and first length.
const HEAD: usize = 8;
/// The second length.
const TAIL: usize = 4;

/// A block that is being put together.
pub(super) struct Frame<'b> {
    out: &'b mut Vec<u8>,
    has_options: bool,
}

/// Adds a block to `out`, with what `body` puts into it. Nothing is added if that is refused, or if it is longer than `most` bytes.
#[inline]
pub(super) fn framed(
    out: &mut Vec<u8>,
    kind: u32,
    most: u32,
    body: impl FnOnce(&mut Frame<'_>) -> Result<(), Refused>,
) -> Result<(), Refused> {
    let begin = out.len();
    let mut frame = Frame { out, has_options: false };
    frame.u32(kind).u32(0);
    let done = body(&mut frame);
    if frame.has_options {
        frame.u16(END).u16(0);
    }
    let length = out.len() - begin + TAIL;
    let done = done.and_then(|()| if length > most as usize { Err(too_long(kind, most)) } else { Ok(()) });
    if done.is_err() {
        out.truncate(begin);
        return done;
    }
    let length = (length as u32).to_le_bytes();
    out[begin + 4..begin + HEAD].copy_from_slice(&length);
    out.extend_from_slice(&length);
    Ok(())
}

#[cold]
fn too_long(kind: u32, most: u32) -> Refused {
    format!("a block of type {kind:#x} would be longer than {most} bytes, the limit")
}

impl Frame<'_> {
    #[inline]
    pub(super) fn u16(&mut self, number: u16) -> &mut Self {
        self.out.extend_from_slice(&number.to_le_bytes());
        self
    }

    #[inline]
    pub(super) fn u32(&mut self, number: u32) -> &mut Self {
        self.out.extend_from_slice(&number.to_le_bytes());
        self
    }

    #[inline]
    pub(super) fn u64(&mut self, number: u64) -> &mut Self {
        self.out.extend_from_slice(&number.to_le_bytes());
        self
    }

    /// A time: the upper 32 bits first.
    #[inline]
    pub(super) fn ticks(&mut self, ticks: u64) -> &mut Self {
        self.u64(ticks.rotate_left(32))
    }

    /// Bytes, filled up to 32 bits.
    #[inline]
    pub(super) fn padded(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        let fill = padded(bytes.len()) - bytes.len();
        self.out.extend_from_slice(&[0; 3][..fill]);
        self
    }

    /// An option, the value of which is `parts` one after the other.
    #[inline]
    pub(super) fn option(&mut self, code: u16, parts: &[&[u8]]) -> Result<(), Refused> {
        self.has_options = true;
        self.value(code, parts)
    }

    /// A record of names, which looks like an option and is none.
    pub(super) fn value(&mut self, code: u16, parts: &[&[u8]]) -> Result<(), Refused> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let Ok(length) = u16::try_from(length) else { return Err(no_room(code, length)) };
        self.u16(code).u16(length);
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
        let length = usize::from(length);
        self.out.extend_from_slice(&[0; 3][..padded(length) - length]);
        Ok(())
    }

    /// A text, which has no NUL: readers end texts there.
    pub(super) fn text(&mut self, code: u16, text: &str) -> Result<(), Refused> {
        self.option(code, &[checked(text)?])
    }
}

/// The bytes of a text without a NUL.
pub(super) fn checked(text: &str) -> Result<&[u8], Refused> {
    if text.contains('\0') { Err(format!("a text has a NUL in it: {text:?}")) } else { Ok(text.as_bytes()) }
}

#[cold]
fn no_room(code: u16, length: usize) -> Refused {
    format!("an option (code {code}) of {length} bytes; there is room for {}", u16::MAX)
}

/// How many of the first `count` bytes of these blocks are whole blocks.
pub(super) fn whole_bytes(blocks: &[u8], count: usize) -> usize {
    let mut at = 0;
    while let Some(length) = blocks[at..].get(4..8) {
        // SANITY: four bytes.
        let end = at + u32::from_le_bytes(length.try_into().unwrap()) as usize;
        if end > count {
            break;
        }
        at = end;
    }
    at
}
