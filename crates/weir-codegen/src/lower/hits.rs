//! What a probe's program does before all else: it counts that it ran.
//!
//! One whose clause is for returns alone runs at the entry as well, as all programs of a session do; there it counts and
//! ends. Calls whose return was missed are those that entered and have not returned.

use weir_ebpf::insn::{jmp, size};
use weir_ebpf::kfunc;
use weir_ir::Trigger;

use super::Lower;
use super::build::Arg;
use crate::lir::{Area, Inst, Place, R0, Src};
use crate::maps::{HITS_ENTRIES, HITS_RETURNS};
use weir_ebpf::helper;

impl Lower<'_> {
    /// Comes before the first block of program number `program`.
    pub(super) fn prologue(&mut self, program: usize) {
        match self.function.trigger {
            // Who offers an event counts what was kept and what not.
            Trigger::Begin
            | Trigger::End
            | Trigger::Interval { .. }
            | Trigger::Asked { .. }
            | Trigger::Filter => {}
            Trigger::Kernel { .. } if self.function.trigger.is_session() => self.count_ends(program),
            Trigger::Uprobe { .. } | Trigger::Usdt { .. } | Trigger::Kernel { .. } => {
                self.count_hit(program, HITS_ENTRIES)
            }
            Trigger::Uretprobe { .. } => {
                let at_return = self.at_return();
                self.count_hit(program, HITS_ENTRIES);
                self.insts.push(Inst::Jump(self.return_label()));
                self.insts.push(Inst::Label(at_return));
                self.count_hit(program, HITS_RETURNS);
            }
            Trigger::Session { .. } => self.count_ends(program),
        }
    }

    /// Of a session, which goes on at both ends.
    fn count_ends(&mut self, program: usize) {
        if self.maps.hits.is_none() {
            return;
        }
        let at_return = self.at_return();
        let counted = self.label();
        self.count_hit(program, HITS_ENTRIES);
        self.insts.push(Inst::Jump(counted));
        self.insts.push(Inst::Label(at_return));
        self.count_hit(program, HITS_RETURNS);
        self.insts.push(Inst::Label(counted));
    }

    /// Goes on at the entry; a jump to the label is taken at the return.
    fn at_return(&mut self) -> crate::lir::Label {
        let at_return = self.label();
        self.insts.push(Inst::CallKernel(kfunc::SESSION_IS_RETURN));
        self.branch(jmp::JNE, R0, Src::Imm(0), at_return);
        at_return
    }

    fn count_hit(&mut self, program: usize, offset: i32) {
        let Some(hits) = self.maps.hits else { return };
        let skip = self.label();
        let key = self.object_in(4, Area::Stack);
        let to = Place::Object(key, 0);
        self.insts.push(Inst::Store { size: size::W, to, src: Src::Imm(program as i32) });
        self.call(helper::MAP_LOOKUP_ELEM, &[Arg::Map(hits), Arg::Object(key)]);
        self.touch(key);
        // Never taken: every program has an entry.
        self.skip_if_null(skip);
        let one = self.constant(1);
        self.insts.push(Inst::AtomicAdd { to: Place::Reg(R0, offset), src: one, fetch: false });
        self.insts.push(Inst::Label(skip));
    }
}
