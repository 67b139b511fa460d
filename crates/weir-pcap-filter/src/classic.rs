//! [`Graph`] → classic BPF.
//!
//! Values are computed in A, with X for offsets and right sides, and M[] from slot 0 on for what is at hand meanwhile; kept values
//! ([`Graph::kept`]) have the slots from 15 down. What A and X hold is known from node to node, so that a value that is tested again is not
//! loaded again. Jumps reach 255 instructions; where one has to reach further, it leads to a `ja` after it.

mod layout;
mod upper;

use std::collections::HashMap;

use weir_cbpf::insn::{MEMWORDS, alu, class, misc, mode, size};
use weir_cbpf::{Ancillary, Insn, ancillary};

use crate::ast::Operator;
use crate::classic::layout::{Code, Label};
use crate::graph::{Condition, Graph, Node, Target};
use crate::ir::{Chain, Comparison, ContextField, Metadata, Test, Value, ValueId, Width};
use crate::{Filter, TooLong};

/// Slots of M[].
const SLOTS: usize = MEMWORDS as usize;

impl Filter {
    /// The filter as a classic program.
    ///
    /// # Errors
    /// Its numbers need more memory than the machine has.
    pub fn classic(&self) -> Result<Vec<Insn>, TooLong> {
        let graph = &self.graph.without_sets();
        if graph.kept.len() >= SLOTS {
            return Err(TooLong { what: "tunnels and lengths", limit: SLOTS });
        }
        let slots = graph.kept.iter().zip(0..).map(|(value, slot)| (*value, MEMWORDS - 1 - slot)).collect();
        let mut emitter = Emitter {
            graph,
            code: Code::default(),
            slots,
            in_use: 0,
            held: Held::default(),
            missing: None,
            entry: vec![None; graph.nodes.len()],
        };
        // Scoped filters ask for values alone that were kept on every way.
        if self.meaning.is_none() {
            emitter.begin();
        }
        let order = graph.order();
        for (at, index) in order.iter().enumerate() {
            let next = order.get(at + 1).map(|next| Target::Node(*next));
            emitter.node(*index, next)?;
        }
        if order.is_empty() && graph.root == Target::Reject {
            emitter.code.jump(Label::Target(graph.root));
        }
        emitter.code.place(Label::Target(Target::Accept));
        emitter.code.push(Insn::ret(self.snaplen));
        emitter.code.place(Label::Target(Target::Reject));
        emitter.code.push(Insn::ret(0));
        Ok(emitter.code.finish())
    }
}

/// The values in A and X.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Held {
    a: Option<ValueId>,
    x: Option<ValueId>,
}

struct Emitter<'a> {
    graph: &'a Graph,
    code: Code,
    slots: HashMap<ValueId, u32>,
    /// Slots of M[] in use for values at hand.
    in_use: u32,
    held: Held,
    /// Where a packet goes that a value is missing of, if it is not rejected as the machine does it.
    missing: Option<Label>,
    /// What is held on every way to a node.
    entry: Vec<Option<Held>>,
}

impl Emitter<'_> {
    /// Slots of kept values that some way does not fill have zeros.
    fn begin(&mut self) {
        let root = match self.graph.root {
            Target::Node(root) => self.graph.nodes[root].forced.as_slice(),
            _ => &[],
        };
        let mut unset: Vec<u32> =
            self.slots.iter().filter(|(value, _)| !root.contains(value)).map(|(_, slot)| *slot).collect();
        unset.sort_unstable();
        if !unset.is_empty() {
            self.code.push(Insn::plain(class::LD | mode::IMM, 0));
            unset.into_iter().for_each(|slot| self.code.push(Insn::plain(class::ST, slot)));
        }
    }

    fn node(&mut self, index: usize, next: Option<Target>) -> Result<(), TooLong> {
        let Node { forced, condition, yes, no, missing } = &self.graph.nodes[index];
        self.code.place(Label::Target(Target::Node(index)));
        self.held = self.entry[index].unwrap_or_default();
        self.missing = (*missing != Target::Reject).then_some(Label::Target(*missing));
        for value in forced {
            self.fresh(*value)?;
            if let Some(slot) = self.slots.get(value) {
                self.code.push(Insn::plain(class::ST, *slot));
            }
        }
        match condition {
            Condition::Always => {
                if next != Some(*yes) {
                    self.code.jump(Label::Target(*yes));
                }
            }
            Condition::Test(test) => self.compare(*test, Label::Target(*yes), Label::Target(*no))?,
            Condition::Chain(chain) => self.chain(*chain, *yes, *no)?,
        }
        for target in [*yes, *no] {
            if let Target::Node(node) = target {
                let held = self.held;
                let entry = self.entry[node].get_or_insert(held);
                entry.a = entry.a.filter(|value| held.a == Some(*value));
                entry.x = entry.x.filter(|value| held.x == Some(*value));
            }
        }
        if let Target::Node(node) = *missing {
            self.entry[node] = Some(Held::default());
        }
        Ok(())
    }

    fn compare(&mut self, test: Test, yes: Label, no: Label) -> Result<(), TooLong> {
        let Test { comparison, left, right, .. } = test;
        let operation = match comparison {
            Comparison::Eq => weir_cbpf::insn::jmp::JEQ,
            Comparison::Gt => weir_cbpf::insn::jmp::JGT,
            Comparison::Ge => weir_cbpf::insn::jmp::JGE,
            Comparison::Set => weir_cbpf::insn::jmp::JSET,
        };
        match self.graph.values.constant(right) {
            Some(number) => {
                self.value(left)?;
                self.code.branch(Insn::jump(operation, number, 0, 0), yes, no);
            }
            None => {
                self.pair(left, right)?;
                self.code.branch(Insn::jump(operation | weir_cbpf::insn::source::X, 0, 0, 0), yes, no);
            }
        }
        Ok(())
    }

    /// Leaves a value in A.
    fn value(&mut self, id: ValueId) -> Result<(), TooLong> {
        if self.held.a == Some(id) {
            return Ok(());
        }
        match self.slots.get(&id) {
            Some(slot) => {
                self.code.push(Insn::plain(class::LD | mode::MEM, *slot));
                self.held.a = Some(id);
                Ok(())
            }
            None => self.fresh(id),
        }
    }

    fn fresh(&mut self, id: ValueId) -> Result<(), TooLong> {
        match *self.graph.values.get(id) {
            // Sets were taken apart.
            Value::Set(_) => {}
            Value::Const(number) => self.code.push(Insn::plain(class::LD | mode::IMM, number)),
            Value::Len => self.code.push(Insn::plain(class::LD | mode::LEN, 0)),
            Value::Load { base: None, offset, width } => {
                self.need(offset, width.bytes());
                self.code.push(Insn::load(size_of(width), offset));
            }
            Value::Load { base: Some(base), offset, width } => {
                self.index(base)?;
                self.indexed(width, offset);
            }
            Value::HeaderLength { .. } => {
                self.index(id)?;
                self.code.push(Insn::plain(class::MISC | misc::TXA, 0));
            }
            Value::Negate(inner) => {
                self.value(inner)?;
                self.code.push(Insn::plain(class::ALU | alu::NEG, 0));
            }
            Value::Metadata(metadata) => {
                let (fact, width) = match metadata {
                    Metadata::PacketType => (Ancillary::PacketType, size::H),
                    Metadata::Ifindex => (Ancillary::InterfaceIndex, size::W),
                };
                self.ancillary(fact, width);
            }
            Value::Context(field) => {
                let fact = match field {
                    ContextField::PacketType => Ancillary::PacketType,
                    ContextField::Ifindex => Ancillary::InterfaceIndex,
                    ContextField::QueueMapping => Ancillary::Queue,
                    ContextField::Hash => Ancillary::ReceiveHash,
                };
                self.ancillary(fact, size::W);
            }
            Value::Upper(chain) => self.upper(chain)?,
            Value::Binary { operator: operator @ (Operator::Div | Operator::Mod), left, right, .. }
                if self.missing.is_some() && self.graph.values.constant(right).is_none() =>
            {
                self.divide(operator, left, right)?;
            }
            Value::Binary { operator, left, right, .. } => match self.graph.values.constant(right) {
                Some(number) => {
                    self.value(left)?;
                    self.operate(operator, number);
                }
                None => {
                    self.pair(left, right)?;
                    self.code.push(Insn::alu(operation(operator) | weir_cbpf::insn::source::X, 0));
                }
            },
            Value::If { test, then, otherwise } => {
                let (yes, no, end) = (self.code.label(), self.code.label(), self.code.label());
                self.compare(test, yes, no)?;
                let held = self.held;
                self.code.place(yes);
                self.value(then)?;
                self.code.jump(end);
                self.code.place(no);
                self.held = held;
                self.value(otherwise)?;
                self.code.place(end);
                self.held = Held::default();
            }
        }
        self.held.a = Some(id);
        Ok(())
    }

    fn ancillary(&mut self, fact: Ancillary, width: u16) {
        let row = ancillary::ALL.iter().find(|row| row.meaning == fact);
        // SANITY: all of them are in the table.
        let offset = ancillary::BASE.wrapping_add(row.expect("a row").offset);
        self.code.push(Insn::load(width, offset));
    }

    /// A packet without these bytes goes on elsewhere. The machine knows the length on the wire alone, and rejects a packet of which fewer
    /// bytes were captured than are read. A is lost.
    fn need(&mut self, offset: u32, bytes: u32) {
        let Some(missing) = self.missing else { return };
        let Some(end) = offset.checked_add(bytes) else { return self.code.jump(missing) };
        let further = self.code.label();
        self.code.push(Insn::plain(class::LD | mode::LEN, 0));
        self.code.branch(Insn::jump(weir_cbpf::insn::jmp::JGE, end, 0, 0), further, missing);
        self.code.place(further);
        self.held.a = None;
    }

    /// A load at X and an offset.
    fn indexed(&mut self, width: Width, offset: u32) {
        let bytes = width.bytes();
        if let Some(missing) = self.missing {
            use weir_cbpf::insn::{jmp, source};
            self.need(offset, bytes);
            let further = self.code.label();
            self.code.push(Insn::alu(alu::SUB, offset.wrapping_add(bytes)));
            self.code.branch(Insn::jump(jmp::JGE | source::X, 0, 0, 0), further, missing);
            self.code.place(further);
        }
        self.code.push(Insn::load_indexed(size_of(width), offset));
    }

    /// A division by a value, which has no result if that is 0.
    fn divide(&mut self, operator: Operator, left: ValueId, right: ValueId) -> Result<(), TooLong> {
        let Some(missing) = self.missing else { return Ok(()) };
        self.value(right)?;
        let slot = self.slot()?;
        let further = self.code.label();
        self.code.branch(Insn::jump(weir_cbpf::insn::jmp::JEQ, 0, 0, 0), missing, further);
        self.code.place(further);
        self.code.push(Insn::plain(class::ST, slot));
        self.value(left)?;
        self.code.push(Insn::plain(class::LDX | mode::MEM, slot));
        self.held.x = Some(right);
        self.code.push(Insn::alu(operation(operator) | weir_cbpf::insn::source::X, 0));
        self.in_use -= 1;
        Ok(())
    }

    fn operate(&mut self, operator: Operator, number: u32) {
        match operator {
            // The machine takes no such shifts; they give 0.
            Operator::Lsh | Operator::Rsh if number > 31 => {
                self.code.push(Insn::plain(class::LD | mode::IMM, 0))
            }
            // Nor such divisors; the packet is rejected.
            Operator::Div | Operator::Mod if number == 0 => self.code.jump(Label::Target(Target::Reject)),
            _ => self.code.push(Insn::alu(operation(operator), number)),
        }
    }

    /// Leaves a value in X; what A holds may be lost.
    fn index(&mut self, id: ValueId) -> Result<(), TooLong> {
        if self.held.x == Some(id) {
            return Ok(());
        }
        match (self.slots.get(&id), self.graph.values.get(id)) {
            (Some(slot), _) => self.code.push(Insn::plain(class::LDX | mode::MEM, *slot)),
            (None, Value::HeaderLength { offset }) => {
                let offset = *offset;
                self.need(offset, 1);
                self.code.push(Insn::plain(class::LDX | mode::MSH | size::B, offset));
            }
            (None, Value::Const(number)) => self.code.push(Insn::plain(class::LDX | mode::IMM, *number)),
            _ => {
                self.value(id)?;
                self.code.push(Insn::plain(class::MISC | misc::TAX, 0));
            }
        }
        self.held.x = Some(id);
        Ok(())
    }

    /// Leaves `left` in A and `right` in X.
    fn pair(&mut self, left: ValueId, right: ValueId) -> Result<(), TooLong> {
        let is_simple = self.slots.contains_key(&left)
            || matches!(
                self.graph.values.get(left),
                Value::Const(_)
                    | Value::Len
                    | Value::Load { base: None, .. }
                    | Value::Metadata(_)
                    | Value::Context(_)
            );
        if is_simple {
            self.index(right)?;
            return self.value(left);
        }
        self.value(right)?;
        let slot = self.slot()?;
        self.code.push(Insn::plain(class::ST, slot));
        self.value(left)?;
        self.code.push(Insn::plain(class::LDX | mode::MEM, slot));
        self.held.x = Some(right);
        self.in_use -= 1;
        Ok(())
    }

    fn slot(&mut self) -> Result<u32, TooLong> {
        if self.in_use as usize + self.slots.len() >= SLOTS {
            return Err(TooLong { what: "numbers at hand at once", limit: SLOTS });
        }
        self.in_use += 1;
        Ok(self.in_use - 1)
    }

    /// Follows headers: A is the next one's number, X its offset. The loop jumps back, which the kernel does not take.
    fn chain(&mut self, chain: Chain, yes: Target, no: Target) -> Result<(), TooLong> {
        use weir_cbpf::insn::jmp::JEQ;
        let fixed = |more: u32| chain.header.wrapping_add(more);
        let slot = self.slot()?;
        let code = &mut self.code;
        let (head, options, authentication) = (code.label(), code.label(), code.label());
        code.push(Insn::load(size::B, fixed(if chain.is_ipv6 { 6 } else { 9 })));
        code.push(match chain.is_ipv6 {
            true => Insn::plain(class::LDX | mode::IMM, 40),
            false => Insn::plain(class::LDX | mode::MSH | size::B, fixed(0)),
        });
        code.place(head);
        let mut is = |number: u32, to: Label| {
            let further = code.label();
            code.branch(Insn::jump(JEQ, number, 0, 0), to, further);
            code.place(further);
        };
        is(chain.protocol, Label::Target(yes));
        is(59, Label::Target(no));
        is(51, authentication);
        if chain.is_ipv6 {
            [0, 43, 44, 60].into_iter().for_each(|number| is(number, options));
        }
        code.jump(Label::Target(no));
        let tax = Insn::plain(class::MISC | misc::TAX, 0);
        if chain.is_ipv6 {
            code.place(options);
            for insn in [
                Insn::load_indexed(size::B, fixed(0)),
                Insn::plain(class::ST, slot),
                Insn::load_indexed(size::B, fixed(1)),
                Insn::alu(alu::ADD, 1),
                Insn::alu(alu::MUL, 8),
                Insn::alu(alu::ADD | weir_cbpf::insn::source::X, 0),
                tax,
                Insn::plain(class::LD | mode::MEM, slot),
            ] {
                code.push(insn);
            }
            code.jump(head);
        }
        code.place(authentication);
        for insn in [
            Insn::load_indexed(size::B, fixed(0)),
            Insn::plain(class::ST, slot),
            Insn::plain(class::MISC | misc::TXA, 0),
            Insn::alu(alu::ADD, 1),
            tax,
            Insn::load_indexed(size::B, fixed(0)),
            Insn::alu(alu::ADD, 2),
            Insn::alu(alu::MUL, 4),
            tax,
            Insn::plain(class::LD | mode::MEM, slot),
        ] {
            code.push(insn);
        }
        code.jump(head);
        self.in_use -= 1;
        self.held = Held::default();
        Ok(())
    }
}

fn size_of(width: Width) -> u16 {
    match width {
        Width::Byte => size::B,
        Width::Half => size::H,
        Width::Word => size::W,
    }
}

/// The code of an operation.
pub(crate) fn operation(operator: Operator) -> u16 {
    match operator {
        Operator::Add => alu::ADD,
        Operator::Sub => alu::SUB,
        Operator::Mul => alu::MUL,
        Operator::Div => alu::DIV,
        Operator::Mod => alu::MOD,
        Operator::And => alu::AND,
        Operator::Or => alu::OR,
        Operator::Xor => alu::XOR,
        Operator::Lsh => alu::LSH,
        Operator::Rsh => alu::RSH,
    }
}
