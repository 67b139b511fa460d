//! Any bytes as a trace, its metadata before the bytes of one stream: classes and events in their order, or an error that names the place.
//!
//! The metadata's length is in the first two bytes. Classes that were read are described again, in both formats, and read again.

use std::path::Path;

use weir_trace::class::{Array, FieldClass, Scope, Sequence};
use weir_trace::write::{self, Format};
use weir_trace::{Message, Reader, Values};

const SHOWN: [Scope; 4] =
    [Scope::PacketContext, Scope::CommonContext, Scope::SpecificContext, Scope::Payload];

/// Reads bytes as metadata and one stream.
pub fn read(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (metadata, stream) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    if let Ok(class) = weir_trace::read::metadata::parse(Path::new("metadata"), metadata) {
        for format in [Format::Ctf1, Format::Ctf2] {
            if let Ok(text) = write::metadata(&class, format) {
                let again = weir_trace::read::metadata::parse(Path::new("metadata"), &text);
                assert!(again.is_ok(), "what weir describes, it reads: {again:?}");
            }
        }
    }
    let Ok(mut reader) = Reader::of_memory(metadata, vec![stream.to_vec()]) else { return };
    let mut damaged = 0;
    while let Some(message) = reader.next() {
        match message {
            Message::Event(event) => {
                for (class, mut values) in SHOWN.iter().filter_map(|scope| event.scope(*scope)) {
                    walk(class, &mut values);
                }
            }
            Message::Lost(..) => {}
            Message::Damage(_) => damaged += 1,
        }
    }
    assert!(damaged <= 1, "a stream ends once");
}

/// Takes every value, as a printer does.
fn walk(class: &FieldClass, values: &mut Values<'_>) {
    match class {
        FieldClass::Int(_) | FieldClass::Bool(_) | FieldClass::Float(_) => drop(values.word()),
        FieldClass::Enum(of) => drop(of.labels_of(values.word())),
        FieldClass::Flags(of) => drop(of.active(values.word())),
        FieldClass::Wide(of) => assert!(!of.text(values.text()).contains('\0')),
        FieldClass::Optional(of) => {
            if values.word() != 0 {
                walk(&of.field, values);
            }
        }
        FieldClass::Str => assert!(!values.text().contains(&0)),
        FieldClass::Struct(of) => {
            let shown = of.fields.iter().filter(|field| !field.is_hidden);
            shown.for_each(|field| walk(&field.class, values));
        }
        FieldClass::Variant(of) => {
            let option = values.word() as usize;
            walk(&of.options[option].field.class, values);
        }
        FieldClass::Array(Array { element, .. }) | FieldClass::Sequence(Sequence { element, .. }) => {
            match values.packed(element) {
                Some(packed) => {
                    for index in 0..packed.count.min(64) {
                        let _ = packed.get(index);
                    }
                }
                None => (0..values.word()).for_each(|_| walk(element, values)),
            }
        }
    }
}
