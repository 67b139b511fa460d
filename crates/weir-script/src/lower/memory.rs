//! Memory by type: the operations that fetch what a pointer leads to.
//!
//! A place is an address and how far what is meant lies from it: offsets of members and elements that are known now are added up, so
//! that each pointer of a chain takes one read, and what is read is no wider than its type. A read that cannot be is 0 or "", and counted.

use weir_event::ctype::{Bits, CType, CTypes, Member, TypeId};
use weir_event::kernel::KernelEvent;
use weir_event::{Type, Word};
use weir_ir::{BinOp, Builtin, CmpOp, Op, Trigger, Value};

use crate::ast::{BinaryOp, Expr, ExprKind, IntType, TypeName};
use crate::check::constant;
use crate::kernel;
use crate::lower::Lowering;
use crate::lower::expr::{Operand, part};
use crate::types;
use weir_header::Named;

/// Something that has bytes.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Its address, or what it is a part of.
    base: Value,
    of: Of,
    /// From there, in bytes.
    offset: i64,
    pub(super) ty: TypeId,
    bits: Option<Bits>,
}

/// What a place is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Memory,
    /// An object that the script holds.
    Held,
    /// What a program in the kernel is given, whose address it is.
    Context,
}

impl Place {
    fn at(base: Value, ty: TypeId) -> Place {
        Place { base, of: Of::Memory, offset: 0, ty, bits: None }
    }

    /// All of an object.
    pub(super) fn held(base: Value, ty: TypeId) -> Place {
        Place { of: Of::Held, ..Place::at(base, ty) }
    }

    /// The script holds it.
    pub(super) fn is_held(self) -> bool {
        self.of == Of::Held
    }

    /// So many bytes further on.
    pub(super) fn plus(self, bytes: i64) -> Place {
        Place { offset: self.offset + bytes, ..self }
    }
}

impl Lowering<'_> {
    /// The value of a macro or an enumerator.
    pub(super) fn named(&mut self, name: &str) -> Option<Operand> {
        match self.checked.known.named(name)? {
            Named::Number(value) => {
                let signed = i64::try_from(value).is_ok();
                Some(self.int(value as i64, Type::Int { signed }))
            }
            Named::Text(text) => Some(self.string(text, None)),
            Named::Other(_) => None,
        }
    }

    /// The value of what lies in memory.
    pub(super) fn memory(&mut self, expr: &Expr) -> Operand {
        if let Some(index) = self.checked.parts.get(&expr.span) {
            let (ExprKind::Member { of, .. } | ExprKind::Index { of, .. }) = &expr.kind else {
                unreachable!("a part is a member or an element")
            };
            let of = self.expr(of);
            return match of.ty {
                Type::Str { .. } => self.character(&of, *index),
                _ => part(&of, *index),
            };
        }
        let place = self.place(expr);
        self.load(place)
    }

    /// A `char`, which has a sign.
    fn character(&mut self, of: &Operand, at: usize) -> Operand {
        let op = Op::Part { of: of.value(), offset: at as u32, bytes: 1 };
        let mut value = self.blocks.value(op, Type::I64);
        for op in [BinOp::Shl, BinOp::AShr] {
            let by = self.number(56);
            value = self.blocks.value(Op::Bin(op, value, by), Type::I64);
        }
        Operand::one(value, Type::I64)
    }

    /// It lies in memory, or in a value as in memory.
    pub(super) fn is_place(&self, expr: &Expr) -> bool {
        let is_field =
            || matches!(&expr.kind, ExprKind::Field(name) if self.target.kernel_fields.contains_key(name));
        expr.is_place() && !self.checked.parts.contains_key(&expr.span) || is_field()
    }

    /// `args.name` of an event of the kernel's.
    pub(super) fn kernel_field(&mut self, name: &str) -> Option<Place> {
        self.target.kernel_fields.get(name).cloned().map(|member| self.in_context(member))
    }

    /// What the program is given has it there.
    pub(super) fn in_context(&mut self, Member { ty, offset, bits, .. }: Member) -> Place {
        let base = self.blocks.value(Op::Builtin(Builtin::Context), Type::U64);
        let place = Place { of: Of::Context, offset: offset.into(), ..Place::at(base, ty) };
        Place { bits, ..place }
    }

    fn types(&self) -> &CTypes {
        &self.checked.types
    }

    /// Bytes that a pointer moves by when 1 is added.
    pub(super) fn stride(&self, ty: &Type) -> i64 {
        match ty {
            Type::Pointer(to) => self.bytes(*to),
            _ => 1,
        }
    }

    /// Of `void` it is 1, as in GNU C.
    fn bytes(&self, ty: TypeId) -> i64 {
        self.types().bytes(ty).unwrap_or(1).into()
    }

    pub(super) fn place(&mut self, expr: &Expr) -> Place {
        match &expr.kind {
            ExprKind::Deref(of) if let Some(ty) = self.checked.type_ids.get(&expr.span.start) => {
                let base = self.expr(of).value();
                Place::at(base, *ty)
            }
            // SANITY: only a field of the kernel's is a place.
            ExprKind::Field(name) => self.kernel_field(name).expect("a field that is a place is there"),
            ExprKind::Deref(of) => {
                let (place, is_pointee) = self.source(of);
                match *self.types().get(place.ty) {
                    CType::Array { element, .. } if !is_pointee => Place { ty: element, ..place },
                    _ => place,
                }
            }
            ExprKind::Member { of, name } => {
                let (mut place, _) = self.source(of);
                let types = &self.checked.types;
                let CType::Record(record) = types.get(place.ty) else {
                    unreachable!("the check wants a record")
                };
                // SANITY: the check refuses a name that is no member.
                let member = record.member(types, &name.text).expect("a checked member is there");
                place.offset += i64::from(member.offset);
                Place { ty: member.ty, bits: member.bits, ..place }
            }
            ExprKind::Index { of, index } => {
                let (place, is_pointee) = self.source(of);
                match *self.types().get(place.ty) {
                    CType::Array { element, count } if !is_pointee => {
                        self.element(Place { ty: element, ..place }, index, count)
                    }
                    _ => self.element(place, index, 0),
                }
            }
            _ => unreachable!("only `*`, members and elements are places"),
        }
    }

    /// What a pointer leads to, and true; or a record or an array itself.
    fn source(&mut self, expr: &Expr) -> (Place, bool) {
        if self.is_place(expr) {
            let place = self.place(expr);
            return match *self.types().get(place.ty) {
                CType::Pointer(ty) => {
                    let base = self.load(place).value();
                    (Place::at(base, ty), true)
                }
                _ => (place, false),
            };
        }
        if matches!(&expr.kind, ExprKind::Name(name) if name == kernel::CTX) {
            let ty = self.target.kernel_context;
            return (self.in_context(Member { name: String::new(), ty, offset: 0, bits: None }), true);
        }
        let operand = self.expr(expr);
        let (ty, is_held) = match operand.ty {
            Type::Pointer(ty) => (ty, false),
            Type::Object { ty, .. } => (ty, true),
            other => unreachable!("the check wants a pointer or a record, not {other:?}"),
        };
        let base = operand.value();
        (if is_held { Place::held(base, ty) } else { Place::at(base, ty) }, !is_held)
    }

    /// An element of those that begin at `place`. One past the last of `count`, if that is known, lies at no address.
    fn element(&mut self, place: Place, index: &Expr, count: u32) -> Place {
        let bytes = self.bytes(place.ty);
        if let Some(index) = constant(index, &self.checked.known).and_then(|index| i64::try_from(index).ok())
        {
            return Place { offset: place.offset.wrapping_add(index.wrapping_mul(bytes)), ..place };
        }
        let index = self.expr(index).value();
        let distance = self.scaled(index, bytes);
        let start = self.moved(place.base, place.offset);
        let mut base = self.blocks.value(Op::Bin(BinOp::Add, start, distance), Type::U64);
        if count > 0 {
            let count = self.number(count.into());
            let is_inside = self.blocks.value(Op::Cmp(CmpOp::ULt, index, count), Type::I64);
            let zero = self.number(0);
            let mask = self.blocks.value(Op::Bin(BinOp::Sub, zero, is_inside), Type::U64);
            base = self.blocks.value(Op::Bin(BinOp::And, base, mask), Type::U64);
        }
        // What is given to a program is read at places that are known beforehand, else as memory.
        let of = if place.of == Of::Context { Of::Memory } else { place.of };
        Place { base, of, offset: 0, ..place }
    }

    fn scaled(&mut self, value: Value, by: i64) -> Value {
        if by == 1 {
            return value;
        }
        let by = self.number(by);
        self.blocks.value(Op::Bin(BinOp::Mul, value, by), Type::U64)
    }

    fn moved(&mut self, value: Value, by: i64) -> Value {
        if by == 0 {
            return value;
        }
        let by = self.number(by);
        self.blocks.value(Op::Bin(BinOp::Add, value, by), Type::U64)
    }

    pub(super) fn load(&mut self, place: Place) -> Operand {
        let ty = self.types().get(place.ty).clone();
        let (bytes, signed) = match ty {
            CType::Int { bytes, signed, .. } => (bytes, signed),
            CType::Enum(of) => (of.bytes, of.signed),
            // In the record, at so many bytes from its start as the lower half of a word says: the upper half is the length.
            CType::Pointer(to) if place.bits.is_some() => {
                let distance = self.integer_at(place, 2, Type::U64);
                let address = self.blocks.value(Op::Bin(BinOp::Add, place.base, distance), Type::U64);
                return Operand::one(address, Type::Pointer(to));
            }
            CType::Pointer(to) => {
                return Operand::one(self.integer_at(place, 8, Type::U64), Type::Pointer(to));
            }
            CType::Float { bytes } => {
                let value = self.integer_at(place, bytes, Type::I64);
                return if bytes == 4 { self.widened(value) } else { self.double_of_bits(value) };
            }
            CType::Array { count, .. } if self.types().text(place.ty).is_some() => {
                return self.text(place, count);
            }
            CType::Array { .. } | CType::Record(_) => return self.object(place),
            other => unreachable!("the check refuses {other:?} as a value"),
        };
        let bits = place.bits.unwrap_or(Bits { shift: 0, width: 8 * bytes });
        // SANITY: the check refuses a bit-field that no integer holds.
        let bytes = bits.bytes().expect("a checked bit-field is in one integer");
        let value = self.integer_at(place, bytes, Type::U64);
        let number = self.field_of(value, bits, bytes, signed);
        match self.types().get(place.ty) {
            CType::Enum(_) => Operand { ty: Type::Word(Word::Enum(place.ty)), ..number },
            _ => number,
        }
    }

    /// An integer of so many bytes, extended with zeros.
    pub(super) fn integer_at(&mut self, place: Place, bytes: u8, ty: Type) -> Value {
        let offset = u16::try_from(place.offset).ok().filter(|offset| offset.is_multiple_of(bytes.into()));
        let op = match (place.of, offset) {
            (Of::Held, _) => Op::Part { of: place.base, offset: place.offset as u32, bytes: bytes.into() },
            (Of::Context, Some(offset)) if offset >= self.first_field() => {
                Op::Builtin(Builtin::Field { offset, bytes })
            }
            _ => Op::ReadInt { address: self.moved(place.base, place.offset), bytes },
        };
        self.blocks.value(op, ty)
    }

    /// From where on programs may read what they are given: of a tracepoint's record the kernel keeps the first word to itself.
    fn first_field(&self) -> u16 {
        let Trigger::Kernel { sites } = &self.target.trigger else { return 0 };
        match sites.first().map(|site| &site.event) {
            Some(KernelEvent::Tracepoint { .. }) => 8,
            _ => 0,
        }
    }

    /// Where it lies in the target.
    pub(super) fn address_of(&mut self, place: Place) -> Value {
        self.moved(place.base, place.offset)
    }

    /// All of a record or an array.
    pub(super) fn object(&mut self, place: Place) -> Operand {
        // SANITY: the check refuses one without bytes.
        let bytes = self.types().bytes(place.ty).expect("a checked object has a size");
        let ty = Type::Object { ty: place.ty, bytes: bytes.next_multiple_of(8) };
        let op = match place.is_held() {
            true => Op::Part { of: place.base, offset: place.offset as u32, bytes },
            false => Op::ReadBytes { address: self.moved(place.base, place.offset), bytes, limit: None },
        };
        Operand::one(self.blocks.value(op, ty.clone()), ty)
    }

    /// The bits of an integer of so many bytes, extended.
    fn field_of(&mut self, value: Value, bits: Bits, bytes: u8, signed: bool) -> Operand {
        let ty = Type::Int { signed };
        let (shift, width) = (i64::from(bits.shift), i64::from(bits.width));
        let by = |this: &mut Self, op, value, by: i64| {
            let by = this.number(by);
            this.blocks.value(Op::Bin(op, value, by), Type::Int { signed })
        };
        if width == 64 {
            return Operand::one(value, ty);
        }
        if signed {
            let up = by(self, BinOp::Shl, value, 64 - shift - width);
            return Operand::one(by(self, BinOp::AShr, up, 64 - width), ty);
        }
        // What is read is extended with zeros already.
        let down = if shift == 0 { value } else { by(self, BinOp::LShr, value, shift) };
        let is_rest = shift + width == 8 * i64::from(bytes);
        let value = if is_rest { down } else { by(self, BinOp::And, down, (1 << width) - 1) };
        Operand::one(value, ty)
    }

    /// An array of so many characters.
    fn text(&mut self, place: Place, count: u32) -> Operand {
        let ty = types::text_of(count, self.checked.max_strlen);
        let op = match place.is_held() {
            true => {
                let bytes = count.min(ty.bytes() - 1);
                Op::Part { of: place.base, offset: place.offset as u32, bytes }
            }
            false => {
                let limit = (count > 0).then(|| self.number(count.into()));
                Op::ReadStr { address: self.moved(place.base, place.offset), limit }
            }
        };
        Operand::one(self.blocks.value(op, ty.clone()), ty)
    }

    /// `(type)operand`
    pub(super) fn cast_to(&mut self, name: &TypeName, operand: &Expr) -> Operand {
        let (bytes, signed) = match self.types().get(self.checked.type_ids[&name.span.start]) {
            CType::Pointer(to) => {
                let ty = Type::Pointer(*to);
                return Operand { ty, ..self.number_or_address(operand) };
            }
            // Its bytes, the lowest first.
            CType::Array { .. } => {
                let ty = self.checked.type_ids[&name.span.start];
                let bits = 8 * self.sized(ty).unwrap_or(types::NUMBER_BYTES);
                let mut operand = self.number_or_address(operand);
                if bits < 64 {
                    operand = self.without_sign(&operand, bits);
                }
                let op = Op::Join(vec![(operand.value(), types::NUMBER_BYTES)]);
                let ty = Type::Object { ty, bytes: types::NUMBER_BYTES };
                return Operand::one(self.blocks.value(op, ty.clone()), ty);
            }
            CType::Enum(of) => (of.bytes, of.signed),
            CType::Int { bytes, signed, .. } => (*bytes, *signed),
            other => unreachable!("the check refuses a cast to {other:?}"),
        };
        let operand = self.number_or_address(operand);
        let to = IntType { bits: 8 * u32::from(bytes), signed };
        let operand = self.cast_int(to, operand, types::is_truth_name(name));
        let id = self.checked.type_ids[&name.span.start];
        let ty = match self.types().get(id) {
            CType::Enum(_) => Type::Word(Word::Enum(id)),
            _ => Type::Int { signed },
        };
        Operand::one(operand.value(), ty)
    }

    /// The same as a number alone.
    pub(super) fn address(&mut self, expr: &Expr) -> Value {
        self.number_or_address(expr).value()
    }

    /// The value; of an array in memory its address.
    fn number_or_address(&mut self, expr: &Expr) -> Operand {
        if !self.is_place(expr) {
            return self.expr(expr);
        }
        let place = self.place(expr);
        match self.types().get(place.ty) {
            CType::Array { .. } if !place.is_held() => {
                Operand::one(self.moved(place.base, place.offset), Type::U64)
            }
            _ => self.load(place),
        }
    }

    /// `+` and `-` of a pointer and a number, which counts elements; none where both are taken as numbers.
    pub(super) fn pointer_sum(&mut self, op: BinaryOp, left: &Operand, right: &Operand) -> Option<Operand> {
        if let (BinaryOp::Sub, Type::Pointer(to), Type::Pointer(other)) = (op, &left.ty, &right.ty)
            && to == other
        {
            let apart = self.blocks.value(Op::Bin(BinOp::Sub, left.value(), right.value()), Type::I64);
            let stride = self.number(self.stride(&left.ty));
            return Some(Operand::one(
                self.blocks.value(Op::Bin(BinOp::SDiv, apart, stride), Type::I64),
                Type::I64,
            ));
        }
        let (pointer, number) = match (op, &left.ty, &right.ty) {
            (BinaryOp::Add | BinaryOp::Sub, Type::Pointer(_), Type::Int { .. }) => (left, right),
            (BinaryOp::Add, Type::Int { .. }, Type::Pointer(_)) => (right, left),
            _ => return None,
        };
        let distance = self.scaled(number.value(), self.stride(&pointer.ty));
        let op = if op == BinaryOp::Add { BinOp::Add } else { BinOp::Sub };
        let value = self.blocks.value(Op::Bin(op, pointer.value(), distance), Type::U64);
        Some(Operand::one(value, pointer.ty.clone()))
    }
}
