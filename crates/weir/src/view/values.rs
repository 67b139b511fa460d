//! Values of events, field by field: texts, and going over what is not wanted.

use weir_trace::Values;
use weir_trace::class::FieldClass;

/// A text of any class; `None`, with the value gone over, of what is none.
pub(super) fn text<'r>(class: &FieldClass, values: &mut Values<'r>) -> Option<&'r [u8]> {
    let element = match class {
        FieldClass::Str => return Some(values.text()),
        FieldClass::Array(array) => &array.element,
        FieldClass::Sequence(sequence) => &sequence.element,
        _ => {
            skip(class, values);
            return None;
        }
    };
    if !element.is_character() {
        skip(class, values);
        return None;
    }
    Some(up_to_nul(values.packed(element)?.bytes))
}

/// Characters end at a NUL, if there is one.
pub(super) fn up_to_nul(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// Goes over a value.
pub(super) fn skip(class: &FieldClass, values: &mut Values<'_>) {
    match class {
        FieldClass::Struct(of) => {
            of.fields.iter().filter(|field| !field.is_hidden).for_each(|field| skip(&field.class, values));
        }
        FieldClass::Array(array) => skip_elements(&array.element, values),
        FieldClass::Sequence(sequence) => skip_elements(&sequence.element, values),
        FieldClass::Variant(of) => {
            let choice = &of.options[values.word() as usize];
            skip(&choice.field.class, values);
        }
        FieldClass::Optional(of) => {
            if values.word() != 0 {
                skip(&of.field, values);
            }
        }
        FieldClass::Int(_)
        | FieldClass::Enum(_)
        | FieldClass::Bool(_)
        | FieldClass::Flags(_)
        | FieldClass::Float(_)
        | FieldClass::Str
        | FieldClass::Wide(_) => {
            values.word();
        }
    }
}

fn skip_elements(element: &FieldClass, values: &mut Values<'_>) {
    if values.packed(element).is_none() {
        for _ in 0..values.word() {
            skip(element, values);
        }
    }
}
