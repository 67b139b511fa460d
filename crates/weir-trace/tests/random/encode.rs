//! Random values → bits, as CTF 1.8.3 says (section 4), and the text that babeltrace2 shows of them.

use std::collections::HashMap;

use testkit::random;
use weir_trace::class::{Array, ByteOrder, FieldClass, Int, Sequence};

use crate::{label, list, number};

/// Bits of a packet.
pub(crate) struct Bits {
    pub(crate) bytes: Vec<u8>,
    /// The next one.
    pub(crate) at: usize,
}

/// Values by the names of their fields.
pub(crate) type Known = HashMap<String, i128>;

impl Bits {
    pub(crate) fn align(&mut self, bits: u32) {
        self.at = self.at.next_multiple_of(bits as usize);
        self.bytes.resize(self.at.div_ceil(8), 0);
    }

    fn put(&mut self, value: u64, bits: u8, order: ByteOrder) {
        let end = self.at + usize::from(bits);
        self.bytes.resize(end.div_ceil(8), 0);
        for index in 0..usize::from(bits) {
            let at = self.at + index;
            let (bit, place) = match order {
                ByteOrder::Little => (value >> index & 1, at % 8),
                ByteOrder::Big => (value >> (usize::from(bits) - 1 - index) & 1, 7 - at % 8),
            };
            self.bytes[at / 8] |= (bit as u8) << place;
        }
        self.at = end;
    }
}

/// Adds a value of the class.
pub(crate) fn field(class: &FieldClass, bits: &mut Bits, state: &mut u64, known: &mut Known) -> String {
    named("", class, bits, state, known)
}

fn named(name: &str, class: &FieldClass, bits: &mut Bits, state: &mut u64, known: &mut Known) -> String {
    bits.align(class.align());
    match class {
        FieldClass::Int(int) => {
            // What a sequence may have as its length is small.
            let value = if int.align == 1 && (2..=8).contains(&int.bits) && !int.is_signed {
                random::next(state) % 4
            } else {
                any(int, state)
            };
            put(name, int, value, bits, known);
            number(int.base, int.bits, int.is_signed, value)
        }
        FieldClass::Enum(of) => {
            // A variant's selector has one of the values that choose.
            let is_selector = of.labels.first().is_some_and(|(label, ..)| label == "one");
            let value =
                if is_selector { (random::next(state) % 8).wrapping_sub(4) } else { any(&of.int, state) };
            put(name, &of.int, value, bits, known);
            label(of, value)
        }
        FieldClass::Float(float) => {
            // Few digits, which `%g` shows all.
            let value = (random::next(state) % 4000) as f64 / 8.0 - 100.0;
            let raw = if float.bits == 32 { u64::from((value as f32).to_bits()) } else { value.to_bits() };
            bits.put(raw, float.bits, float.order);
            format!("{value}")
        }
        FieldClass::Str => {
            let text = text(1 + random::next(state) % 9, state);
            text.bytes().chain([0]).for_each(|byte| bits.put(byte.into(), 8, ByteOrder::Little));
            format!("\"{text}\"")
        }
        FieldClass::Struct(of) => {
            let members: Vec<String> = of
                .fields
                .iter()
                .map(|field| {
                    format!("{} = {}", field.name, named(&field.name, &field.class, bits, state, known))
                })
                .collect();
            if members.is_empty() { "{ }".to_owned() } else { format!("{{ {} }}", members.join(", ")) }
        }
        FieldClass::Array(Array { element, count, .. }) => elements(element, *count, bits, state, known),
        FieldClass::Sequence(Sequence { element, length }) => {
            let count = known[length.names.last().expect("a name")];
            elements(element, count as u64, bits, state, known)
        }
        FieldClass::Variant(of) => {
            let value = known[of.selector.names.last().expect("a name")];
            let chosen = of
                .options
                .iter()
                .find(|choice| choice.ranges.iter().any(|(a, b)| (*a..=*b).contains(&value)));
            let chosen = chosen.expect("an option");
            format!("{{ {} }}", named("", &chosen.field.class, bits, state, known))
        }
    }
}

fn elements(element: &FieldClass, count: u64, bits: &mut Bits, state: &mut u64, known: &mut Known) -> String {
    if element.is_character() {
        let text = text(count, state);
        text.bytes().for_each(|byte| bits.put(byte.into(), 8, ByteOrder::Little));
        return format!("\"{text}\"");
    }
    let elements: Vec<String> = (0..count).map(|_| field(element, bits, state, known)).collect();
    list(&elements)
}

fn put(name: &str, int: &Int, value: u64, bits: &mut Bits, known: &mut Known) {
    let number = if int.is_signed { i128::from(value as i64) } else { i128::from(value) };
    known.insert(name.to_owned(), number);
    bits.put(value, int.bits, int.order);
}

/// Any value that the integer has room for, extended to 64 bits; the ends more often than others.
fn any(int: &Int, state: &mut u64) -> u64 {
    let all = match random::next(state) % 4 {
        0 => 0,
        1 => u64::MAX,
        _ => random::next(state),
    };
    let unused = 64 - u32::from(int.bits);
    if int.is_signed { ((all << unused) as i64 >> unused) as u64 } else { all << unused >> unused }
}

fn text(length: u64, state: &mut u64) -> String {
    (0..length).map(|_| char::from(b'a' + (random::next(state) % 26) as u8)).collect()
}
