//! Generates the short way of a hit: 64 bytes for a site, and those of an island's sites next to each other.
//!
//! In: a window at a function's entry, and the one program there, where it reads nothing of its frame and changes no flag, as one
//! that counts. Out: what the patch jumps to. Whatever is not as usual is left to the site's trampoline, as if the patch had
//! led there.
//!
//! ```text
//! line:   push  %rcx
//!         mov   gate(%rip),%rcx; jrcxz 1f
//!         movzwl (%rcx),%ecx; jrcxz 1f
//!         push  %rax; push %r11         ; what the program clobbers
//!         call  program
//!         mov   %rcx,-8(%rsp)           ; over the return address
//!         pop   %r11; pop %rax; pop %rcx
//!         push  %rbp; mov %rsp,%rbp; sub $16,%rsp      (relocated)
//!         jmp   function + 8
//! 1:      pop   %rcx
//!         jmp   trampoline
//! ```
//!
//! What a hit costs where the code around it is in no near cache is lines and pages of code: a transaction of a PostgreSQL with 379 hits takes
//! 1.0107 of an unprobed one's CPU time by trampolines, and 1.0090 by lines (decision 0048). In a loop it makes no difference.
//!
//! The return address would stay behind in dead stack: a thread that waits in a later call that does not write over it would look
//! as if it came back to this code.

use weir_plan::Refusal;
use weir_plan::window::{Shape, Window};

use crate::isa::x86_64::emitter::{Emitter, RCX, RSP};
use crate::isa::x86_64::trampoline::{Call, Placement, go_on};
use crate::limits::LINE_BYTES;
use crate::program::When;

/// The code of a line.
pub(crate) struct Line {
    pub code: Vec<u8>,
    /// As in [`Trampoline`](crate::isa::x86_64::trampoline::Trampoline).
    pub places: Vec<(u32, u64)>,
}

/// Whether there may be a line for a site with these programs. It may turn out too long.
pub(crate) fn is_possible(window: &Window, calls: &[Call]) -> bool {
    let [call] = calls else { return false };
    let asks_nothing =
        call.context_reads == 0 && !call.reads_cookie && !call.uses_session && !call.walks_stack;
    // Below the stack pointer of a function's entry nothing is live. What changes no flag calls no helper, which might want the
    // stack at a multiple of 16.
    let is_called = matches!(window.shape, Shape::Called(_));
    !window.inside
        && !is_called
        && call.when == When::Entry
        && asks_nothing
        && !call.clobbers_flags
        && !call.may_misalign
}

/// The line at `placement` that else goes to `trampoline`; none if it is too long.
pub(crate) fn generate(
    window: &Window,
    placement: Placement,
    call: &Call,
    trampoline: u64,
) -> Result<Option<Line>, Refusal> {
    let saved = || {
        (0..16).filter(|&register| register != RCX && register != RSP && call.clobbers >> register & 1 == 1)
    };
    let mut out = Emitter::new(placement.at, 0);
    let mut places = Vec::new();
    out.push(RCX);
    out.load_rip_rcx(placement.gate);
    let unprobed = out.jrcxz_ahead();
    out.load_half_rcx();
    let shut = out.jrcxz_ahead();
    saved().for_each(|register| out.push(register));
    out.call(call.address);
    out.store(RCX, -8);
    saved().rev().for_each(|register| out.pop(register));
    out.pop(RCX);
    go_on(&mut out, window, placement, &mut places)?;
    let is_near = out.land(unprobed) && out.land(shut);
    out.pop(RCX);
    out.jump(trampoline);
    let fits = is_near && out.code.len() <= LINE_BYTES;
    Ok(fits.then_some(Line { code: out.code, places }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::x86_64::trampoline::tests::{FUNCTION, PLACEMENT, call, disassembled, window};
    use weir_plan::body;
    use weir_plan::window::{FunctionCode, plan};

    const TRAMPOLINE: u64 = 0x7f00_0010_4000;

    /// Of a program that changes rax and r11.
    fn counts() -> Call {
        Call { reads_cookie: false, ..call(1 | 1 << 11, false, 0) }
    }

    fn line(bytes: &[u8], call: &Call) -> Option<Line> {
        generate(&window(bytes), PLACEMENT, call, TRAMPOLINE).unwrap()
    }

    #[test]
    fn it_is_what_its_description_shows() {
        let line = line(&FUNCTION, &counts()).unwrap();
        let expected = [
            "push %rcx",
            "mov 0x7F0000200000,%rcx",
            "jrcxz 0x00007F000010002D",
            "movzwl (%rcx),%ecx",
            "jrcxz 0x00007F000010002D",
            "push %rax",
            "push %r11",
            "call 0x00007F0000110000",
            "mov %rcx,-8(%rsp)",
            "pop %r11",
            "pop %rax",
            "pop %rcx",
            "push %rbp",
            "mov %rsp,%rbp",
            "sub $0x10,%rsp",
            "jmp 0x00007F0000001008",
            "pop %rcx",
            "jmp 0x00007F0000104000",
        ];
        assert_eq!(disassembled(&line.code), expected);
        // Where a thread stands in the function itself, as long as it has gone on there.
        let of_window: Vec<u64> = line.places.iter().map(|(_, original)| original - PLACEMENT.bias).collect();
        assert_eq!(of_window, [0x1000, 0x1001, 0x1004, 0x1008]);
    }

    #[test]
    fn it_is_for_one_program_that_asks_for_nothing() {
        let window = window(&FUNCTION);
        assert!(is_possible(&window, &[counts()]));
        assert!(!is_possible(&window, &[]));
        assert!(!is_possible(&window, &[counts(), counts()]));
        for other in [
            Call { clobbers_flags: true, ..counts() },
            Call { may_misalign: true, ..counts() },
            Call { context_reads: 1 << 14, ..counts() },
            Call { reads_cookie: true, ..counts() },
            Call { uses_session: true, ..counts() },
            Call { walks_stack: true, ..counts() },
            Call { when: When::Return, ..counts() },
        ] {
            assert!(!is_possible(&window, &[other]), "{other:?}");
        }
        let inside = FunctionCode::at(0x1000, &FUNCTION, &[], 0x1004);
        let inside = plan(inside, &body::read(0x1000, &FUNCTION)).unwrap();
        assert!(inside.inside && !is_possible(&inside, &[counts()]), "the red zone is live");
    }

    #[test]
    fn what_does_not_fit_a_line_has_none() {
        let all = Call { clobbers: !(1 << RSP), ..counts() };
        assert!(line(&FUNCTION, &all).is_none());
    }
}
