//! [`Graph`] → an eBPF program of kind `Classifier`: the kernel's for tc, and weir's own machine code.
//!
//! | register | holds |
//! |---|---|
//! | r6 | the context |
//! | r7, r8 | the packet's first byte, and its end |
//! | r9 | the packet's first byte and the length of an IPv4 header, where a node needs it |
//! | r0, r1, r2 | values at hand; r0 to r5 are lost at packet loads (`LD_IND`) |
//!
//! Bytes at constant offsets, and those after an IPv4 header, are read by plain loads. That they are captured is checked where the way to them
//! begins ([`guards`]): a packet that leaves less than every way to acceptance reads is rejected at once. Other offsets are left to
//! `LD_IND`, which checks by itself. Numbers that are compared with constants stay in the byte order of the packet.
//!
//! Values that are kept ([`Graph::kept`]) lie on the stack, which has zeros there at first in compatible filters.
//!
//! Where values are missing, packets are rejected, or go on where the node says ([`Node::missing`]).

mod assemble;
mod guards;
mod upper;
mod value;

use std::collections::HashMap;

use weir_ebpf::{Insn, Program, ProgramKind};

use crate::ebpf::assemble::{Assembler, Label};
use crate::ebpf::guards::Guards;
use crate::graph::{Condition, Graph, Node, Target};
use crate::ir::{Chain, ValueId};
use crate::{Filter, TooLong};

/// Slots of 8 bytes that a program's stack has.
const SLOTS: usize = 512 / 8;

impl Filter {
    /// The filter as an eBPF program, which returns the bytes to keep.
    ///
    /// # Errors
    /// It does not fit.
    pub fn program(&self, name: &str) -> Result<Program, TooLong> {
        let mut emitter = Emitter::of(&self.graph);
        if self.graph.kept.len() >= SLOTS {
            return Err(TooLong { what: "tunnels and lengths", limit: SLOTS });
        }
        // Scoped filters ask for values alone that were kept on every way.
        emitter.begin(self.meaning.is_none());
        let order = self.graph.order();
        for (at, index) in order.iter().enumerate() {
            let next = order.get(at + 1).map(|next| Target::Node(*next));
            emitter.node(*index, next)?;
        }
        let code = emitter.end(self.snaplen, order.is_empty() && self.graph.root == Target::Reject)?;
        Ok(Program { name: name.to_owned(), kind: ProgramKind::Classifier, insns: code })
    }
}

/// Writes the instructions of a graph.
struct Emitter<'a> {
    graph: &'a Graph,
    guards: Guards,
    code: Assembler,
    /// Where kept values lie, by their slot from the top of the stack down.
    kept: HashMap<ValueId, usize>,
    /// In use for values at hand, after those that are kept.
    in_use: usize,
    /// What r9 was made of.
    pointer: Option<u32>,
}

impl<'a> Emitter<'a> {
    fn of(graph: &'a Graph) -> Emitter<'a> {
        let kept: HashMap<ValueId, usize> =
            graph.kept.iter().enumerate().map(|(slot, value)| (*value, slot)).collect();
        let guards = Guards::of(graph);
        let in_use = kept.len();
        Emitter { graph, guards, code: Assembler::default(), kept, in_use, pointer: None }
    }

    fn begin(&mut self, clears_kept: bool) {
        self.code.copy64(6, 1);
        self.code.load(2, 7, 6, context_offset("data"));
        self.code.load(2, 8, 6, context_offset("data_end"));
        if clears_kept && !self.kept.is_empty() {
            self.code.set(0, 0);
            (0..self.kept.len()).for_each(|slot| self.code.store(slot, 0));
        }
    }

    fn node(&mut self, index: usize, next: Option<Target>) -> Result<(), TooLong> {
        let Node { forced, condition, yes, no, missing } = &self.graph.nodes[index];
        self.code.place(Label::of(Target::Node(index)));
        self.pointer = None;
        if let Some(bytes) = self.guards.check(index) {
            self.code.need_or(7, bytes, Label::of(Target::Reject));
        }
        self.code.missing = (*missing != Target::Reject).then_some(Label::of(*missing));
        if let Some(bytes) = self.guards.check_of_reads(index) {
            self.code.need(7, bytes);
        }
        for value in forced {
            self.fresh(*value)?;
            if let Some(slot) = self.kept.get(value) {
                self.code.store(*slot, 0);
            }
        }
        match condition {
            Condition::Always => self.code.jump_unless_next(*yes, next),
            Condition::Test(test) => self.test(*test, *yes, *no, next)?,
            Condition::Chain(chain) => self.chain(*chain, *yes, *no)?,
        }
        Ok(())
    }

    /// Follows headers: two slots of the stack have the next one's number and its offset.
    fn chain(&mut self, chain: Chain, yes: Target, no: Target) -> Result<(), TooLong> {
        let (next, offset) = (self.slot()?, self.slot()?);
        let fixed = |more: u32| chain.header.wrapping_add(more);
        let code = &mut self.code;
        let (head, options, authentication) = (code.label(), code.label(), code.label());
        if chain.is_ipv6 {
            code.packet_load(None, fixed(6), 1);
            code.store(next, 0);
            code.set(0, 40);
        } else {
            code.packet_load(None, fixed(9), 1);
            code.store(next, 0);
            code.packet_load(None, fixed(0), 1);
            code.and(0, 0xf);
            code.shift_left(0, 2);
        }
        code.store(offset, 0);
        code.place(head);
        code.may_goto();
        code.fetch(0, next);
        code.jump_if_equal(0, chain.protocol, Label::of(yes));
        code.jump_if_equal(0, 59, Label::of(no));
        code.jump_if_equal(0, 51, authentication);
        if chain.is_ipv6 {
            for number in [0, 43, 44, 60] {
                code.jump_if_equal(0, number, options);
            }
        }
        code.jump(Label::of(no));
        if chain.is_ipv6 {
            code.place(options);
            code.fetch(1, offset);
            code.packet_load(Some(1), fixed(0), 1);
            code.store(next, 0);
            code.fetch(1, offset);
            code.packet_load(Some(1), fixed(1), 1);
            code.add(0, 1);
            code.shift_left(0, 3);
            code.fetch(1, offset);
            code.add_register(0, 1);
            code.store(offset, 0);
            code.jump(head);
        }
        code.place(authentication);
        code.fetch(1, offset);
        code.packet_load(Some(1), fixed(0), 1);
        code.store(next, 0);
        code.fetch(1, offset);
        code.add(1, 1);
        code.packet_load(Some(1), fixed(0), 1);
        code.add(0, 2);
        code.shift_left(0, 2);
        code.store(offset, 0);
        code.jump(head);
        self.in_use -= 2;
        Ok(())
    }

    /// A free slot of the stack.
    fn slot(&mut self) -> Result<usize, TooLong> {
        if self.in_use >= SLOTS {
            return Err(TooLong { what: "numbers at hand at once", limit: SLOTS });
        }
        self.in_use += 1;
        Ok(self.in_use - 1)
    }

    fn end(mut self, snaplen: u32, rejects_all: bool) -> Result<Vec<Insn>, TooLong> {
        if rejects_all {
            self.code.jump(Label::of(Target::Reject));
        }
        self.code.place(Label::of(Target::Accept));
        self.code.set(0, snaplen);
        self.code.exit();
        self.code.place(Label::of(Target::Reject));
        self.code.set(0, 0);
        self.code.exit();
        self.code.finish()
    }
}

/// Where the context has a field.
fn context_offset(name: &str) -> i16 {
    let field = weir_ebpf::context::field_named(ProgramKind::Classifier, name);
    // SANITY: all that are asked for are fields of the kind.
    field.expect("a field").offset as i16
}
