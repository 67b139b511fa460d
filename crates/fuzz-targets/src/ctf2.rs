//! Any bytes as the metadata of CTF 2, before the bytes of one stream: classes, or an error that names the place.
//!
//! The metadata's length is in the first two bytes; a preamble stands before it, so that inputs need not find that out. What is read is described
//! again: that text is read, described as itself, and by it the stream's bytes are the same events.

use std::path::Path;

use weir_trace::class::{Array, FieldClass, Scope, Sequence, TraceClass};
use weir_trace::write::{self, Format};
use weir_trace::{Message, Reader, Values};

const PREAMBLE: &[u8] =
    b"\x1e{\"type\":\"preamble\",\"version\":2,\"uuid\":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\n";
const SHOWN: [Scope; 4] =
    [Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];
/// Events that are compared of one stream.
const EVENTS: usize = 200;

/// Reads bytes as metadata of CTF 2 and one stream.
pub fn read(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (metadata, stream) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let metadata = [PREAMBLE, metadata].concat();
    let Ok(class) = parsed(&metadata) else { return };
    // What CTF 1.8 has too is described there, or refused; nothing else may happen.
    let _ = write::metadata(&class, Format::Ctf1);
    let Ok(text) = write::metadata(&class, Format::Ctf2) else { return };
    let again = parsed(&text).unwrap_or_else(|error| panic!("what weir describes, it reads: {error}"));
    assert_eq!(
        write::metadata(&again, Format::Ctf2).as_ref(),
        Ok(&text),
        "the same text of the same classes"
    );
    assert_eq!(told(&metadata, stream), told(&text, stream));
}

fn parsed(metadata: &[u8]) -> Result<TraceClass, weir_trace::Error> {
    weir_trace::read::metadata::parse(Path::new("metadata"), metadata)
}

/// Events with all their values, losses and damage; or why there are none.
fn told(metadata: &[u8], stream: &[u8]) -> Vec<String> {
    let mut reader = match Reader::of_memory(metadata, vec![stream.to_vec()]) {
        Ok(reader) => reader,
        Err(error) => return vec![error.to_string()],
    };
    let mut told = Vec::new();
    while let Some(message) = reader.next() {
        told.push(match message {
            Message::Event(event) => {
                let mut text = format!("{:?} {} {}", event.class.name, event.cycles, event.bits);
                for (class, mut values) in SHOWN.iter().filter_map(|scope| event.scope(*scope)) {
                    walk(class, &mut values, &mut text);
                }
                text
            }
            Message::Lost(loss, _) => format!("{loss:?}"),
            Message::Damage(error) => error.to_string(),
        });
        if told.len() >= EVENTS {
            break;
        }
    }
    told
}

/// Takes every value, as a printer does.
fn walk(class: &FieldClass, values: &mut Values<'_>, text: &mut String) {
    match class {
        FieldClass::Int(_) | FieldClass::Bool(_) | FieldClass::Float(_) => {
            text.push_str(&format!(" {}", values.word()));
        }
        FieldClass::Enum(of) => text.push_str(&format!(" {:?}", of.labels_of(values.word()))),
        FieldClass::Flags(of) => text.push_str(&format!(" {:?}", of.active(values.word()))),
        FieldClass::Str => text.push_str(&format!(" {:?}", values.text())),
        FieldClass::Wide(of) => text.push_str(&format!(" {:?}", of.text(values.text()))),
        FieldClass::Struct(of) => {
            let shown = of.fields.iter().filter(|field| !field.is_hidden);
            shown.for_each(|field| walk(&field.class, values, text));
        }
        FieldClass::Variant(of) => {
            let option = values.word() as usize;
            walk(&of.options[option].field.class, values, text);
        }
        FieldClass::Optional(of) => {
            if values.word() != 0 {
                walk(&of.field, values, text);
            }
        }
        FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
            match values.packed(element) {
                Some(packed) => {
                    text.push_str(&format!(
                        " {} {:?}",
                        packed.count,
                        &packed.bytes[..packed.bytes.len().min(64)]
                    ));
                }
                None => (0..values.word()).for_each(|_| walk(element, values, text)),
            }
        }
    }
}
