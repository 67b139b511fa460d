//! The file `metadata` → a trace class: as plain text, as text in packets (CTF 1.8.3, section 7.1), or as JSON texts (CTF 2).

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::class::TraceClass;
use crate::error::Error;
use crate::limits::METADATA_BYTES_MAX;
use crate::{ctf2, hide, tsdl};

const MAGIC: u32 = 0x75d1_1d57;
/// Bytes of a packet's header.
const HEADER_BYTES: usize = 37;

/// The trace class that a file describes.
pub(crate) fn read(path: &Path) -> Result<TraceClass, Error> {
    let failed = |what, source| Error::File { path: path.to_owned(), what, source };
    let file = File::open(path).map_err(|source| failed("open", source))?;
    let mut bytes = Vec::new();
    file.take(METADATA_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|source| failed("read", source))?;
    if bytes.len() as u64 > METADATA_BYTES_MAX {
        return Err(Error::TooMuch {
            path: path.to_owned(),
            what: "bytes of metadata",
            limit: METADATA_BYTES_MAX,
        });
    }
    parse(path, &bytes)
}

/// The same of bytes. `path`: what errors call them.
pub fn parse(path: &Path, bytes: &[u8]) -> Result<TraceClass, Error> {
    if bytes.first() == Some(&ctf2::SEPARATOR) {
        let mut trace = ctf2::read(bytes).map_err(|fault| Error::Stream {
            path: path.to_owned(),
            offset: fault.offset as u64,
            message: fault.message,
        })?;
        hide::hide(&mut trace);
        return Ok(trace);
    }
    let text = text(path, bytes)?;
    let mut trace = tsdl::read(&text).map_err(|fault| {
        let (line, column) = tsdl::position(&text, fault.offset);
        Error::Metadata { path: path.to_owned(), line, column, message: fault.message }
    })?;
    hide::hide(&mut trace);
    Ok(trace)
}

/// The text, whichever way it is kept.
fn text(path: &Path, bytes: &[u8]) -> Result<String, Error> {
    let wrong = |offset: usize, message: String| Error::Stream {
        path: path.to_owned(),
        offset: offset as u64,
        message,
    };
    let first = bytes.first_chunk().copied().unwrap_or_default();
    let is_big = u32::from_be_bytes(first) == MAGIC;
    if !is_big && u32::from_le_bytes(first) != MAGIC {
        return Ok(String::from_utf8_lossy(bytes).into_owned());
    }
    let mut whole = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let packet = &bytes[at..];
        let Some(header) = packet.first_chunk::<HEADER_BYTES>() else {
            return Err(wrong(
                at,
                format!("the file ends in the header of a packet of {HEADER_BYTES} bytes"),
            ));
        };
        let word = |from: usize| {
            let bytes = [header[from], header[from + 1], header[from + 2], header[from + 3]];
            if is_big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        if word(0) != MAGIC {
            return Err(wrong(
                at,
                format!("a packet of metadata begins with {:#x}, not {MAGIC:#x}", word(0)),
            ));
        }
        let (content, length) = (word(24) as usize / 8, word(28) as usize / 8);
        if header[32] != 0 || header[33] != 0 {
            return Err(wrong(at + 32, "this packet of metadata is compressed or encrypted".to_owned()));
        }
        if header[35] != 1 || header[36] != 8 {
            return Err(wrong(at + 35, format!("this is CTF {}.{}, not 1.8", header[35], header[36])));
        }
        if content < HEADER_BYTES || length < content || length > packet.len() {
            let text = format!(
                "a packet of {length} bytes with {content} of content, where {} are left",
                packet.len()
            );
            return Err(wrong(at + 24, text));
        }
        whole.extend_from_slice(&packet[HEADER_BYTES..content]);
        at += length;
    }
    Ok(String::from_utf8_lossy(&whole).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(text: &str, padding: usize) -> Vec<u8> {
        let content = (HEADER_BYTES + text.len()) as u32 * 8;
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.extend([7; 16]);
        bytes.extend([0; 4]);
        bytes.extend(content.to_le_bytes());
        bytes.extend((content + padding as u32 * 8).to_le_bytes());
        bytes.extend([0, 0, 0, 1, 8]);
        bytes.extend(text.bytes());
        bytes.extend(vec![0; padding]);
        bytes
    }

    #[test]
    fn packets_are_one_text() {
        let bytes = [packet("/* CTF 1.8 */ tra", 5), packet("ce { byte_order = be; };", 0)].concat();
        let whole = text(Path::new("metadata"), &bytes).unwrap();
        assert_eq!(whole, "/* CTF 1.8 */ trace { byte_order = be; };");
        for end in 1..bytes.len() {
            let cut = text(Path::new("metadata"), &bytes[..end]);
            assert!(cut.is_err() || end < 4 || end == packet("/* CTF 1.8 */ tra", 5).len(), "{end}");
        }
    }
}
