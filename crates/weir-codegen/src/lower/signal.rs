//! Signals that a program sends to the process it runs in.
//!
//! The kernel delivers them when it goes back to the process, so that what the run does besides is done. In a process a signal may end the thread at once, or
//! run a handler: it is sent when the run is over, or another one is to be sent.

use weir_ebpf::insn::{alu, jmp};
use weir_ebpf::{HelperId, helper};
use weir_ir::Value;

use super::Lower;
use super::build::Arg;
use crate::lir::{Inst, Reg, Src};

impl Lower<'_> {
    pub(super) fn signal(&mut self, number: Value, to_thread: bool) {
        if self.maps.is_for_kernel {
            let number = self.reg(number);
            return self.call(helper_of(to_thread), &[Arg::Reg(number)]);
        }
        let signal = match self.signal {
            Some(signal) => signal,
            None => self.fresh(),
        };
        self.signal = Some(signal);
        self.send(signal);
        self.mov_value(signal, number);
        // Helpers take the lower half of the number. The lowest bit says to whom it goes.
        self.alu(alu::LSH, signal, Src::Imm(32));
        self.alu(alu::RSH, signal, Src::Imm(31));
        if to_thread {
            self.alu(alu::OR, signal, Src::Imm(1));
        }
    }

    /// Sends the signal that is to be sent, if one is.
    pub(super) fn send(&mut self, signal: Reg) {
        let (thread, done) = (self.label(), self.label());
        self.branch(jmp::JEQ, signal, Src::Imm(0), done);
        let number = self.fresh();
        self.mov(number, signal);
        self.alu(alu::RSH, number, Src::Imm(1));
        self.branch(jmp::JSET, signal, Src::Imm(1), thread);
        self.call(helper_of(false), &[Arg::Reg(number)]);
        self.insts.push(Inst::Jump(done));
        self.insts.push(Inst::Label(thread));
        self.call(helper_of(true), &[Arg::Reg(number)]);
        self.insts.push(Inst::Label(done));
    }
}

fn helper_of(to_thread: bool) -> HelperId {
    if to_thread { helper::SEND_SIGNAL_THREAD } else { helper::SEND_SIGNAL }
}
