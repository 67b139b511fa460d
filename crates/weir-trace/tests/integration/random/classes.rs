//! Random classes of fields, of everything that CTF 1.8 has, or that CTF 2 has.

use testkit::random;
use weir_trace::class::{
    Array, Base, ByteOrder, Choice, Encoding, Enum, Field, FieldClass, Float, Int, Length, Optional,
    Reference, Scope, Sequence, Struct, Variant, Wide,
};
use weir_trace::write::Format;

pub(crate) fn structure(fields: Vec<Field>) -> FieldClass {
    FieldClass::Struct(Struct { fields, align: 1 })
}

/// Members of a structure of the scope. Names are numbered, so that each is found by itself.
pub(crate) fn fields(
    state: &mut u64,
    names: &mut u32,
    order: ByteOrder,
    scope: Scope,
    depth: u32,
    format: Format,
) -> Vec<Field> {
    Generator { state, names, order, scope, format }.fields(&[], depth)
}

struct Generator<'g> {
    state: &'g mut u64,
    names: &'g mut u32,
    order: ByteOrder,
    scope: Scope,
    format: Format,
}

impl Generator<'_> {
    fn below(&mut self, limit: u64) -> u64 {
        random::next(self.state) % limit
    }

    fn name(&mut self) -> String {
        *self.names += 1;
        format!("f{}", self.names)
    }

    fn fields(&mut self, path: &[String], depth: u32) -> Vec<Field> {
        let mut fields = Vec::new();
        for _ in 0..self.below(6) {
            let name = self.name();
            let mut below = path.to_vec();
            below.push(name.clone());
            let class = self.class(&mut fields, path, &below, depth);
            fields.push(Field::new(name, class));
        }
        fields
    }

    /// A class; what it refers to becomes a member before it.
    fn class(
        &mut self,
        before: &mut Vec<Field>,
        path: &[String],
        below: &[String],
        depth: u32,
    ) -> FieldClass {
        if self.format == Format::Ctf2 && self.below(2) == 0 {
            return self.class_of_ctf_2(before, path, below, depth);
        }
        let kinds = if depth == 0 { 6 } else { 10 };
        match self.below(kinds) {
            0..=2 => FieldClass::Int(self.int()),
            3 => {
                let int = self.int();
                FieldClass::Enum(Enum { labels: labels(&int), int })
            }
            4 => FieldClass::Float(Float::new(
                if self.below(2) == 0 { 32 } else { 64 },
                [8, 32, 64][self.below(3) as usize],
                self.any_order(),
            )),
            5 => FieldClass::Str,
            6 => {
                let fields = self.fields(below, depth - 1);
                FieldClass::Struct(Struct { fields, align: [1, 8, 32][self.below(3) as usize] })
            }
            7 => {
                let count = self.below(4);
                let element = self.element(before, path, below, depth);
                // babeltrace2 2.0.4 shows an empty text as the one before it.
                let count = if element.is_character() { count + 1 } else { count };
                FieldClass::Array(Array::new(element, count))
            }
            8 => {
                let name = self.name();
                let bits = 2 + self.below(7) as u8;
                let int = Int { bits, align: 1, ..Int::packed(8, false, self.order) };
                before.push(Field::new(&name, FieldClass::Int(int)));
                let names = path.iter().cloned().chain([name]).collect();
                let mut element = self.element(before, path, below, depth);
                // An empty one, as above.
                if let Some(int) = element.int_mut() {
                    int.is_text = false;
                }
                FieldClass::Sequence(Sequence::new(element, Reference { scope: self.scope, names }))
            }
            _ => {
                let name = self.name();
                let int =
                    Int { bits: 3 + self.below(10) as u8, align: 1, ..Int::packed(8, true, self.order) };
                let options = ["one", "two", "three"];
                let ranges = [(-4, -1), (0, 0), (1, 3)];
                let of = options.iter().zip(ranges);
                let labels = of.map(|(name, (first, last))| ((*name).to_owned(), first, last)).collect();
                before.push(Field::new(&name, FieldClass::Enum(Enum { int, labels })));
                let names = path.iter().cloned().chain([name]).collect();
                let options = options.iter().zip(ranges).map(|(option, range)| {
                    let mut below = below.to_vec();
                    below.push((*option).to_owned());
                    let class = match self.below(2) {
                        0 => FieldClass::Int(self.int()),
                        _ => {
                            let fields = self.fields(&below, depth - 1);
                            FieldClass::Struct(Struct { fields, align: 1 })
                        }
                    };
                    Choice { field: Field::new(*option, class), ranges: vec![range] }
                });
                let options = options.collect();
                FieldClass::Variant(Variant { selector: Reference { scope: self.scope, names }, options })
            }
        }
    }

    /// What only CTF 2 has.
    fn class_of_ctf_2(
        &mut self,
        before: &mut Vec<Field>,
        path: &[String],
        below: &[String],
        depth: u32,
    ) -> FieldClass {
        let kinds = if depth == 0 { 7 } else { 10 };
        match self.below(kinds) {
            0 => FieldClass::Bool(Int { is_signed: false, ..self.int() }),
            1 => {
                let int = Int { is_signed: false, base: Base::Hexadecimal, ..self.int() };
                let last = i128::from(int.bits) - 1;
                let labels = vec![
                    ("top".to_owned(), last, last),
                    ("any".to_owned(), 0, last),
                    ("low".to_owned(), 0, 0),
                ];
                FieldClass::Flags(Enum { int, labels })
            }
            2 => FieldClass::Int(Int { is_reversed: true, ..self.int() }),
            3 => {
                let int = Int::variable(self.below(2) == 0);
                match self.below(2) {
                    0 => FieldClass::Int(int),
                    _ => FieldClass::Enum(Enum { labels: labels(&int), int }),
                }
            }
            4 => {
                let (bits, align) =
                    ([16, 32, 64][self.below(3) as usize], [8, 32, 64][self.below(3) as usize]);
                let is_reversed = self.below(2) == 0;
                FieldClass::Float(Float { is_reversed, ..Float::new(bits, align, self.any_order()) })
            }
            5 => {
                let order = self.any_order();
                let encoding =
                    if self.below(2) == 0 { Encoding::Utf16(order) } else { Encoding::Utf32(order) };
                let length = match self.below(3) {
                    0 => Length::UpToNul,
                    1 => Length::Fixed([0, 4, 8, 13][self.below(4) as usize]),
                    _ => {
                        let name = format!("units{}", self.name());
                        before.push(Field::new(&name, FieldClass::Int(Int::variable(false))));
                        Length::Dynamic(self.reference(path, name))
                    }
                };
                FieldClass::Wide(Wide { encoding, length })
            }
            6 => {
                let byte = Int { base: Base::Hexadecimal, ..Int::packed(8, false, ByteOrder::Little) };
                // babeltrace2 2.1.1 ends with an empty one.
                let of = Array::new(FieldClass::Int(byte), 1 + self.below(4));
                FieldClass::Array(Array { is_blob: true, ..of })
            }
            7 => {
                let name = self.name();
                let (class, ranges) = match self.below(2) {
                    0 => (FieldClass::Bool(Int { is_signed: false, ..self.int() }), None),
                    _ => {
                        let int = Int { bits: 2, align: 1, ..Int::packed(8, false, self.order) };
                        (FieldClass::Int(int), Some(vec![(0, 0), (2, 2)]))
                    }
                };
                before.push(Field::new(&name, class));
                let selector = self.reference(path, name);
                let field = Box::new(self.class(before, path, below, depth - 1));
                FieldClass::Optional(Optional { selector, ranges, field })
            }
            8 => {
                let element = self.element(before, path, below, depth);
                let align = [1, 16, 64][self.below(3) as usize];
                let is_text = element.is_character();
                let align = if is_text { 1 } else { align };
                FieldClass::Array(Array { align, ..Array::new(element, self.below(4) + u64::from(is_text)) })
            }
            _ => {
                let name = self.name();
                let int = Int { bits: 3, align: 1, is_reversed: true, ..Int::packed(8, false, self.order) };
                before.push(Field::new(&name, FieldClass::Int(int)));
                let length = self.reference(path, name);
                let mut element = self.element(before, path, below, depth);
                if let Some(int) = element.int_mut() {
                    int.is_text = false;
                }
                let align = [1, 32][self.below(2) as usize];
                FieldClass::Sequence(Sequence { align, ..Sequence::new(element, length) })
            }
        }
    }

    fn reference(&self, path: &[String], name: String) -> Reference {
        Reference { scope: self.scope, names: path.iter().cloned().chain([name]).collect() }
    }

    fn element(
        &mut self,
        before: &mut Vec<Field>,
        path: &[String],
        below: &[String],
        depth: u32,
    ) -> FieldClass {
        if self.below(3) == 0 {
            let fields = self.fields(below, depth - 1);
            return FieldClass::Struct(Struct { fields, align: 1 });
        }
        self.class(before, path, below, depth - 1)
    }

    fn int(&mut self) -> Int {
        let is_signed = self.below(2) == 0;
        let base = [Base::Decimal, Base::Decimal, Base::Hexadecimal, Base::Octal, Base::Binary]
            [self.below(5) as usize];
        if self.below(2) == 0 {
            let bits = [8, 16, 32, 64][self.below(4) as usize];
            let align = [8, 8, 16, 32, 64][self.below(5) as usize];
            let is_text = bits == 8 && align == 8 && self.below(3) == 0;
            return Int { align, base, is_text, ..Int::packed(bits, is_signed, self.any_order()) };
        }
        // Within a byte there is one order.
        let bits = 1 + self.below(64) as u8;
        let align = [1, 1, 2, 4, 8][self.below(5) as usize];
        Int { bits, align, base, ..Int::packed(8, is_signed, self.order) }
    }

    fn any_order(&mut self) -> ByteOrder {
        if self.below(2) == 0 { ByteOrder::Little } else { ByteOrder::Big }
    }
}

/// Some labels that the integer has room for; two of them overlap.
fn labels(int: &Int) -> Vec<(String, i128, i128)> {
    let most = if int.is_signed { (1i128 << (int.bits - 1)) - 1 } else { (1i128 << int.bits) - 1 };
    vec![("most".to_owned(), most, most), ("a half".to_owned(), 0, most / 2), ("0".to_owned(), 0, 0)]
}
