//! Random values → bits, as CTF 1.8.3 (section 4) and CTF2-SPEC-2.0 (6.4) say, and the text that babeltrace2 shows of them.

use std::collections::HashMap;

use testkit::random;
use weir_trace::class::{Array, ByteOrder, Encoding, FieldClass, Int, Length, Sequence, Wide};

use crate::random::{blob, flags, label, list, number};

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

    /// As the class says, one bit after the other.
    fn int(&mut self, int: &Int, value: u64) {
        if int.is_variable {
            return self.variable(value, int.is_signed);
        }
        let turned = if int.is_reversed { value.reverse_bits() >> (64 - int.bits) } else { value };
        self.put(turned, int.bits, int.order);
    }

    /// LEB128.
    fn variable(&mut self, value: u64, is_signed: bool) {
        let mut value = value as i64;
        loop {
            let low = value as u64 & 0x7f;
            value = if is_signed { value >> 7 } else { (value as u64 >> 7) as i64 };
            let is_last = match is_signed {
                true => value == 0 && low < 0x40 || value == -1 && low >= 0x40,
                false => value == 0,
            };
            self.put(low | if is_last { 0 } else { 0x80 }, 8, ByteOrder::Little);
            if is_last {
                return;
            }
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.put((*byte).into(), 8, ByteOrder::Little));
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
            let value = if name.starts_with("units") {
                random::next(state) % 4 * 4
            } else if int.align == 1 && (2..=8).contains(&int.bits) && !int.is_signed {
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
        FieldClass::Bool(int) => {
            // Any bit that is set says it.
            let value = if random::next(state).is_multiple_of(2) { any(int, state) } else { 0 };
            put(name, int, value, bits, known);
            (value != 0).to_string()
        }
        FieldClass::Flags(of) => {
            let value = any(&of.int, state);
            bits.int(&of.int, value);
            flags(of, value)
        }
        FieldClass::Wide(of) => wide(of, bits, state, known),
        FieldClass::Optional(of) => {
            let value = known[of.selector.names.last().expect("a name")];
            let is_there = match &of.ranges {
                Some(ranges) => ranges.iter().any(|(first, last)| (*first..=*last).contains(&value)),
                None => value != 0,
            };
            match is_there {
                true => format!("{{ {} }}", named("", &of.field, bits, state, known)),
                false => "<none>".to_owned(),
            }
        }
        FieldClass::Float(float) => {
            // Few digits, which `%g` shows all.
            let value = (random::next(state) % 4000) as f64 / 8.0 - 100.0;
            let (value, raw) = match float.bits {
                // Whole numbers from 1024 to 2047, and their negatives.
                16 => {
                    let (sign, low) = (random::next(state) & 0x8000, random::next(state) & 0x3ff);
                    let value = (1024 + low) as f64;
                    (if sign == 0 { value } else { -value }, sign | 25 << 10 | low)
                }
                32 => (value, u64::from((value as f32).to_bits())),
                _ => (value, value.to_bits()),
            };
            let int = Int { is_reversed: float.is_reversed, ..Int::packed(float.bits, false, float.order) };
            bits.int(&int, raw);
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
        FieldClass::Array(Array { is_blob: true, count, .. }) => {
            let bytes: Vec<u8> = (0..*count).map(|_| random::next(state) as u8).collect();
            bits.bytes(&bytes);
            blob(&bytes)
        }
        FieldClass::Array(Array { element, count, .. }) => elements(element, *count, bits, state, known),
        FieldClass::Sequence(Sequence { element, length, .. }) => {
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
    bits.int(int, value);
}

/// A text that has room, a NUL where there is room for it, and anything behind it.
fn wide(of: &Wide, bits: &mut Bits, state: &mut u64, known: &Known) -> String {
    let room = match &of.length {
        Length::UpToNul => None,
        Length::Fixed(bytes) => Some(*bytes),
        Length::Dynamic(length) => Some(known[length.names.last().expect("a name")] as u64),
    };
    let unit = usize::from(of.encoding.unit_bytes());
    // As long as the room, or so much shorter that a NUL ends it.
    let most = room.map_or(6, |room| room / 4 - u64::from(!room.is_multiple_of(4)));
    let count = random::next(state) % (most + 1);
    let text: String =
        (0..count).map(|_| ['a', 'ä', '→', '\u{1f600}'][random::next(state) as usize % 4]).collect();
    let mut bytes: Vec<u8> = match of.encoding {
        Encoding::Utf16(ByteOrder::Little) => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        Encoding::Utf16(ByteOrder::Big) => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        Encoding::Utf32(ByteOrder::Little) => text.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect(),
        Encoding::Utf32(ByteOrder::Big) => text.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect(),
    };
    let room = room.map_or(bytes.len() + unit, |room| room as usize);
    if bytes.len() < room {
        bytes.extend(vec![0; unit]);
        bytes.resize(room, 0xee);
    }
    bits.bytes(&bytes);
    format!("\"{text}\"")
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
