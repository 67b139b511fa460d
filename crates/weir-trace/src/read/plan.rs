//! Classes → flat plans of reads: what a decoder does for each packet and event, without looking at a class again.
//!
//! - Fields of whole bytes at known places that have no role become one [`Op::Run`]: one check of bounds, then a load each.
//! - Padding whose size is known is part of a run; alignment is computed only where the position is not known.
//! - Values that others refer to go to registers ([`Op::Save`]), values with a role to where the reader of packets looks for them.
//! - A shown value goes to a slot; a hidden one to none.
//!
//! With [`Style::Bitwise`] every number is read bit by bit and every alignment computed: the twin that tests compare with.

use std::collections::{HashMap, HashSet};

use crate::class::{
    Array, ByteOrder, Field, FieldClass, Float, Int, Length, Optional, Reference, Role, Scope, Sequence,
    StreamClass, TraceClass, Variant, Wide,
};
use crate::hide;
use crate::path::Path;

/// The plans of a trace.
#[derive(Debug)]
pub(crate) struct Plans {
    pub(crate) header: Plan,
    /// By the index of the stream's class.
    pub(crate) streams: Vec<StreamPlan>,
}

#[derive(Debug)]
pub(crate) struct StreamPlan {
    pub(crate) context: Plan,
    pub(crate) event_header: Plan,
    /// By the index of the event's class: both contexts and the payload.
    pub(crate) events: Vec<Plan>,
    /// An event's number → the index of its class, for small numbers; [`NONE`]: no such event.
    pub(crate) by_id: Vec<u32>,
    pub(crate) registers: usize,
}

pub(crate) const NONE: u32 = u32::MAX;
/// Numbers of events up to here are looked up in a table.
const TABLE_IDS: u64 = 1 << 16;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Plan {
    pub(crate) ops: Vec<Op>,
    pub(crate) loads: Vec<Load>,
    /// Of [`Op::Select`]: from, to, and which option; of [`Op::Optional`]: from and to.
    pub(crate) ranges: Vec<(i128, i128, u32)>,
    /// Where each option's reads begin.
    pub(crate) options: Vec<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    /// What follows is of this scope.
    Scope(Scope),
    /// To a multiple of so many bits.
    Align(u32),
    /// Several loads of so many bytes together, each to a slot.
    Run {
        first: u32,
        count: u32,
        bytes: u32,
    },
    /// One load, from a whole byte on.
    Fixed {
        kind: Kind,
        is_shown: bool,
    },
    /// A number in so many bits, anywhere.
    Bits {
        bits: u8,
        is_signed: bool,
        order: ByteOrder,
        is_float: bool,
        is_reversed: bool,
        is_shown: bool,
    },
    /// A number in as many bytes as it needs, from a whole one on.
    Variable {
        is_signed: bool,
        is_shown: bool,
    },
    Str {
        is_shown: bool,
    },
    /// Text of so many bytes a unit, up to a NUL.
    WideStr {
        unit: u8,
        is_shown: bool,
    },
    /// The same in so many bytes, up to a NUL if there is one.
    Wide {
        length: Count,
        unit: u8,
        is_shown: bool,
    },
    /// The number just read: to a register.
    Save {
        register: u16,
        is_signed: bool,
    },
    Role(Role),
    /// The number just read is a clock's, or its lowest bits.
    Clock {
        bits: u8,
    },
    /// The same of [`Op::Variable`]: as many bits as it had.
    VariableClock,
    /// The 16 bytes here are the trace's UUID.
    Uuid,
    /// Elements of so many bytes each, one behind the other: their number and place take two slots.
    Packed {
        count: Count,
        bytes: u32,
        is_shown: bool,
    },
    /// Elements that are read one by one, up to [`Op::Next`]; `end` is behind that. Their number takes a slot.
    Each {
        count: Count,
        end: u32,
        is_shown: bool,
    },
    Next,
    /// One of the options, by a register; which one takes a slot. `ranges`, `options`: where those of this variant begin in the plan's.
    Select {
        register: u16,
        ranges: u32,
        range_count: u32,
        options: u32,
        is_shown: bool,
    },
    /// What follows, up to `end`, or nothing, by a register; which of both takes a slot.
    Optional {
        register: u16,
        ranges: u32,
        range_count: u32,
        end: u32,
        is_shown: bool,
    },
    Jump(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Count {
    Fixed(u64),
    Register(u16),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    /// Bytes behind the run's beginning.
    pub(crate) at: u32,
    pub(crate) kind: Kind,
}

/// A number of whole bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind {
    pub(crate) width: Width,
    pub(crate) is_big: bool,
}

/// Bytes, and what becomes of the rest of 64 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Width {
    U8,
    U16,
    U32,
    /// Also a signed number, and a floating-point one.
    All64,
    I8,
    I16,
    I32,
    F32,
}

impl Width {
    pub(crate) fn bytes(self) -> usize {
        match self {
            Width::U8 | Width::I8 => 1,
            Width::U16 | Width::I16 => 2,
            Width::U32 | Width::I32 | Width::F32 => 4,
            Width::All64 => 8,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    Fast,
    /// By the definition.
    #[cfg_attr(not(test), expect(dead_code, reason = "the twin that tests compare with"))]
    Bitwise,
}

/// Plans for everything that the trace's packets have. The error says which field cannot be read.
pub(crate) fn compile(trace: &TraceClass, style: Style) -> Result<Plans, String> {
    let mut shared = Registers::default();
    let mut references = HashSet::new();
    for stream in &trace.streams {
        references.extend(of_stream(stream).into_iter().filter(|path| path.scope == Scope::PacketHeader));
    }
    if let Some(field) = &trace.packet_header {
        hide::collect(&field.class, &mut references);
    }
    shared.add(references)?;
    let header = scopes(&[(Scope::PacketHeader, trace.packet_header.as_ref())], &mut shared, style)?;
    let mut streams = Vec::new();
    for stream in &trace.streams {
        let mut registers = shared.clone();
        registers.add(of_stream(stream))?;
        let context =
            scopes(&[(Scope::PacketContext, stream.packet_context.as_ref())], &mut registers, style)?;
        let event_header =
            scopes(&[(Scope::EventHeader, stream.event_header.as_ref())], &mut registers, style)?;
        let mut events = Vec::new();
        for event in &stream.events {
            let of_event = [
                (Scope::CommonContext, stream.common_context.as_ref()),
                (Scope::SpecificContext, event.specific_context.as_ref()),
                (Scope::Payload, event.payload.as_ref()),
            ];
            let plan = scopes(&of_event, &mut registers.clone(), style).map_err(|text| {
                format!("event {} ({}): {text}", event.id, event.name.as_deref().unwrap_or("no name"))
            })?;
            events.push(plan);
        }
        let ids = stream.events.iter().map(|event| event.id);
        let table = ids.clone().max().filter(|max| *max < TABLE_IDS).map_or(0, |max| max as usize + 1);
        let mut by_id = vec![NONE; table];
        if table > 0 {
            ids.enumerate().for_each(|(index, id)| by_id[id as usize] = index as u32);
        }
        let registers = registers.numbers.len();
        streams.push(StreamPlan { context, event_header, events, by_id, registers });
    }
    Ok(Plans { header, streams })
}

fn of_stream(stream: &StreamClass) -> HashSet<Reference> {
    let mut references = HashSet::new();
    let events = stream.events.iter().flat_map(hide::event_scopes);
    for (_, field) in hide::stream_scopes(stream).chain(events) {
        hide::collect(&field.class, &mut references);
    }
    references
}

/// Which register each value has that is referred to.
#[derive(Clone, Debug, Default)]
struct Registers {
    numbers: HashMap<Reference, u16>,
    /// Those that have been read.
    defined: HashSet<u16>,
}

impl Registers {
    fn add(&mut self, references: HashSet<Reference>) -> Result<(), String> {
        let mut references: Vec<Reference> = references.into_iter().collect();
        // Same input, same plan.
        references.sort_by(|one, other| (one.scope, &one.names).cmp(&(other.scope, &other.names)));
        for reference in references {
            let next = u16::try_from(self.numbers.len());
            let next = next.map_err(|_| "more fields are referred to than 65,536".to_owned())?;
            self.numbers.entry(reference).or_insert(next);
        }
        Ok(())
    }
}

/// Reads of several scopes that follow one another.
fn scopes(
    fields: &[(Scope, Option<&Field>)],
    registers: &mut Registers,
    style: Style,
) -> Result<Plan, String> {
    let known = Known { modulus: 1, offset: 0 };
    let path = Path::new(Scope::PacketHeader);
    let mut planner = Planner { plan: Plan::default(), registers, style, path, known, run: None };
    for (scope, field) in fields {
        let Some(field) = field else { continue };
        planner.path = Path::new(*scope);
        planner.flush();
        planner.plan.ops.push(Op::Scope(*scope));
        planner.class(&field.class, !field.is_hidden)?;
    }
    planner.flush();
    Ok(planner.plan)
}

struct Planner<'r> {
    plan: Plan,
    registers: &'r mut Registers,
    style: Style,
    /// Where the field that is planned is.
    path: Path,
    known: Known,
    /// Bytes of the run that is being put together, and its first load.
    run: Option<(u32, u32)>,
}

/// What is known of the position in bits: its remainder by a power of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    modulus: u32,
    offset: u32,
}

impl Known {
    fn is_byte(self) -> bool {
        self.modulus >= 8 && self.offset.is_multiple_of(8)
    }

    fn advance(&mut self, bits: u32) {
        self.offset = (self.offset + bits) % self.modulus;
    }

    /// What holds whichever of both does.
    fn meet(self, other: Known) -> Known {
        let mut modulus = self.modulus.min(other.modulus);
        while self.offset % modulus != other.offset % modulus {
            modulus /= 2;
        }
        Known { modulus, offset: self.offset % modulus }
    }
}

impl Planner<'_> {
    fn class(&mut self, class: &FieldClass, is_shown: bool) -> Result<(), String> {
        match class {
            FieldClass::Int(int) | FieldClass::Bool(int) => self.int(int, is_shown),
            FieldClass::Enum(of) | FieldClass::Flags(of) => self.int(&of.int, is_shown),
            FieldClass::Float(float) => self.float(float, is_shown),
            FieldClass::Str => {
                self.align(8);
                self.op(Op::Str { is_shown });
                self.known = Known { modulus: 8, offset: 0 };
            }
            FieldClass::Wide(of) => self.wide(of, is_shown)?,
            FieldClass::Struct(of) => {
                self.align(class.align());
                for field in &of.fields {
                    self.field(field, is_shown)?;
                }
            }
            FieldClass::Array(Array { is_uuid: true, .. }) => {
                self.align(8);
                self.op(Op::Uuid);
            }
            FieldClass::Array(Array { element, count, .. }) => {
                self.align(class.align());
                self.elements(element, Count::Fixed(*count), is_shown)?;
            }
            FieldClass::Sequence(Sequence { element, length, .. }) => {
                let register = self.register(length)?;
                self.align(class.align());
                self.elements(element, Count::Register(register), is_shown)?;
            }
            FieldClass::Variant(variant) => self.variant(variant, is_shown)?,
            FieldClass::Optional(of) => self.optional(of, is_shown)?,
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, is_shown: bool) -> Result<(), String> {
        self.path.enter(&field.name);
        self.class(&field.class, is_shown && !field.is_hidden)?;
        self.path.leave();
        Ok(())
    }

    /// The registers of the field that is planned: one for each form in which it is referred to.
    fn own_registers(&self) -> [Option<u16>; 2] {
        let mut forms = self.path.forms().map(|form| self.registers.numbers.get(form).copied());
        [forms.next().flatten(), forms.next().flatten()]
    }

    fn int(&mut self, int: &Int, is_shown: bool) {
        self.align(int.align);
        let registers = self.own_registers();
        let is_plain = is_shown && registers == [None; 2] && int.role.is_none() && int.clock.is_none();
        let width = match (int.bits, int.is_signed) {
            _ if int.is_reversed => None,
            (8, false) => Some(Width::U8),
            (16, false) => Some(Width::U16),
            (32, false) => Some(Width::U32),
            (8, true) => Some(Width::I8),
            (16, true) => Some(Width::I16),
            (32, true) => Some(Width::I32),
            (64, _) => Some(Width::All64),
            _ => None,
        };
        let Int { bits, is_signed, order, .. } = *int;
        if int.is_variable {
            self.op(Op::Variable { is_signed, is_shown });
            self.known = Known { modulus: 8, offset: 0 };
        } else {
            let is_reversed = int.is_reversed;
            let slow = Op::Bits { bits, is_signed, order, is_float: false, is_reversed, is_shown };
            self.number(width, order, bits, slow, is_plain, is_shown);
        }
        for register in registers.into_iter().flatten() {
            self.registers.defined.insert(register);
            self.op(Op::Save { register, is_signed });
        }
        if let Some(role) = int.role {
            self.op(Op::Role(role));
        }
        // The end's time is not yet there.
        if int.clock.is_some() && int.role != Some(Role::EndTime) {
            self.op(if int.is_variable { Op::VariableClock } else { Op::Clock { bits } });
        }
    }

    fn float(&mut self, float: &Float, is_shown: bool) {
        self.align(float.align);
        let Float { bits, order, is_reversed, .. } = *float;
        let width = match bits {
            _ if is_reversed => None,
            32 => Some(Width::F32),
            64 => Some(Width::All64),
            _ => None,
        };
        let slow = Op::Bits { bits, is_signed: false, order, is_float: true, is_reversed, is_shown };
        self.number(width, order, bits, slow, is_shown, is_shown);
    }

    fn wide(&mut self, of: &Wide, is_shown: bool) -> Result<(), String> {
        let unit = of.encoding.unit_bytes();
        let op = match &of.length {
            Length::UpToNul => Op::WideStr { unit, is_shown },
            Length::Fixed(bytes) => Op::Wide { length: Count::Fixed(*bytes), unit, is_shown },
            Length::Dynamic(length) => {
                Op::Wide { length: Count::Register(self.register(length)?), unit, is_shown }
            }
        };
        self.align(8);
        self.op(op);
        self.known = Known { modulus: 8, offset: 0 };
        Ok(())
    }

    fn number(
        &mut self,
        width: Option<Width>,
        order: ByteOrder,
        bits: u8,
        slow: Op,
        is_plain: bool,
        is_shown: bool,
    ) {
        match width {
            Some(width) if self.style == Style::Fast && self.known.is_byte() => {
                let kind = Kind { width, is_big: order == ByteOrder::Big };
                if is_plain {
                    let (bytes, _) = self.run.get_or_insert((0, self.plan.loads.len() as u32));
                    self.plan.loads.push(Load { at: *bytes, kind });
                    *bytes += width.bytes() as u32;
                } else {
                    self.op(Op::Fixed { kind, is_shown });
                }
            }
            _ => self.op(slow),
        }
        self.known.advance(bits.into());
    }

    fn elements(&mut self, element: &FieldClass, count: Count, is_shown: bool) -> Result<(), String> {
        let is_alone = self.own_registers() == [None; 2]
            && element.int().is_none_or(|int| int.role.is_none() && int.clock.is_none());
        if let (Some(bytes), true) = (element.packed_bytes(), is_alone) {
            self.op(Op::Packed { count, bytes, is_shown });
            self.known = Known { modulus: 8, offset: 0 };
            return Ok(());
        }
        let at = self.here();
        self.op(Op::Each { count, end: 0, is_shown });
        self.known = Known { modulus: 1, offset: 0 };
        self.class(element, is_shown)?;
        self.op(Op::Next);
        self.known = Known { modulus: 1, offset: 0 };
        let end = self.here() as u32;
        self.plan.ops[at] = Op::Each { count, end, is_shown };
        Ok(())
    }

    fn variant(&mut self, variant: &Variant, is_shown: bool) -> Result<(), String> {
        let register = self.register(&variant.selector)?;
        let (ranges, options) = (self.plan.ranges.len() as u32, self.plan.options.len() as u32);
        for (index, choice) in variant.options.iter().enumerate() {
            self.plan.ranges.extend(choice.ranges.iter().map(|(first, last)| (*first, *last, index as u32)));
        }
        let range_count = self.plan.ranges.len() as u32 - ranges;
        self.op(Op::Select { register, ranges, range_count, options, is_shown });
        self.plan.options.extend(variant.options.iter().map(|_| 0));
        let (before, mut after) = (self.known, None);
        let mut jumps = Vec::new();
        for (index, choice) in variant.options.iter().enumerate() {
            self.plan.options[options as usize + index] = self.here() as u32;
            self.known = before;
            self.path.enter_option(&choice.field.name);
            self.class(&choice.field.class, is_shown && !choice.field.is_hidden)?;
            self.path.leave_option();
            self.flush();
            jumps.push(self.here());
            self.op(Op::Jump(0));
            after = Some(after.map_or(self.known, |after: Known| after.meet(self.known)));
        }
        self.known = after.unwrap_or(before);
        let end = self.here() as u32;
        jumps.into_iter().for_each(|at| self.plan.ops[at] = Op::Jump(end));
        Ok(())
    }

    fn optional(&mut self, of: &Optional, is_shown: bool) -> Result<(), String> {
        let register = self.register(&of.selector)?;
        let ranges = self.plan.ranges.len() as u32;
        match &of.ranges {
            Some(of) => self.plan.ranges.extend(of.iter().map(|(first, last)| (*first, *last, 0))),
            None => self.plan.ranges.push((1, i128::MAX, 0)),
        }
        let range_count = self.plan.ranges.len() as u32 - ranges;
        let at = self.here();
        let op = |end| Op::Optional { register, ranges, range_count, end, is_shown };
        self.op(op(0));
        let before = self.known;
        self.class(&of.field, is_shown)?;
        self.known = self.known.meet(before);
        let end = self.here() as u32;
        self.plan.ops[at] = op(end);
        Ok(())
    }

    fn register(&self, reference: &Reference) -> Result<u16, String> {
        let register = self.registers.numbers.get(reference);
        register.filter(|register| self.registers.defined.contains(register)).copied().ok_or_else(|| {
            let names = reference.names.join(".");
            format!("{} refers to {names}, which is not before it", self.path.shown())
        })
    }

    /// To a multiple of so many bits.
    fn align(&mut self, bits: u32) {
        if bits <= 1 {
            return;
        }
        let Known { modulus, offset } = self.known;
        if self.style == Style::Fast && modulus >= bits {
            let padding = offset.next_multiple_of(bits) - offset;
            if padding == 0 {
                return;
            }
            self.known.advance(padding);
            match &mut self.run {
                // Loads of a run begin at whole bytes, and so do their alignments end at one.
                Some((bytes, _)) if padding.is_multiple_of(8) => *bytes += padding / 8,
                _ => self.op(Op::Align(bits)),
            }
            return;
        }
        self.op(Op::Align(bits));
        self.known = Known { modulus: bits.max(modulus), offset: if bits >= modulus { 0 } else { offset } };
        if bits < modulus {
            self.known.offset = offset.next_multiple_of(bits) % modulus;
        }
    }

    fn op(&mut self, op: Op) {
        self.flush();
        self.plan.ops.push(op);
    }

    /// The place of the next operation, behind the run that is open.
    fn here(&mut self) -> usize {
        self.flush();
        self.plan.ops.len()
    }

    fn flush(&mut self) {
        if let Some((bytes, first)) = self.run.take() {
            let count = self.plan.loads.len() as u32 - first;
            self.plan.ops.push(Op::Run { first, count, bytes });
        }
    }
}
