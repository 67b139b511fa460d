//! Programs that run at both ends of calls, hand-made, for tests of attaching alone.

#![allow(dead_code, reason = "each test program uses a part")]

use iced_x86::IcedError;
use iced_x86::code_asm::{
    CodeAssembler, qword_ptr, r8, r9, r10, r11, rax, rcx, rdi, rdx, rsi, rsp, word_ptr,
};
use weir_ebpf::{MapKind, MapSpec};
use weir_probe::{
    Attach, Attachment, Refusal, Returns, SiteRequest, Target, When, limits, plan_functions, plan_returns,
    prepare,
};
use weir_rt::Executable;
use weir_rt::executable::{FRAME_IS_RETURN, FRAME_SESSION_COOKIE};
use weir_symbols::{Binary, Function};

use crate::counting::{self, counting, identity};

/// What programs count in, by index: calls, returns, returns that found the cookie of their call, sum of results.
pub(crate) const ENTRIES: u32 = 0;
pub(crate) const RETURNS: u32 = 1;
pub(crate) const MATCHED: u32 = 2;
pub(crate) const SUM: u32 = 3;
const VALUES: u32 = 64;

/// Byte offsets in `pt_regs`.
pub(crate) const AX: i32 = 80;
pub(crate) const SP: i32 = 152;

/// A program with the values' address in rax, that leaves all registers it may clobber with something else in them.
pub(crate) fn program(
    uses_session: bool,
    reads: &[i32],
    body: impl FnOnce(&mut CodeAssembler, &dyn Fn(u32) -> i32) -> Result<(), IcedError>,
) -> Executable {
    let mut asm = CodeAssembler::new(64).unwrap();
    asm.mov(rax, 0x1122_3344_5566_7788u64).unwrap();
    body(&mut asm, &|offset| 8 + offset as i32).unwrap();
    let code = asm.assemble(0).unwrap();
    Executable {
        name: "test".into(),
        text_bytes: code.len() as u32,
        code,
        // rax, rcx, rdx, rsi, rdi, r8 to r11
        clobbers: 0b0000_1111_1100_0111,
        context_reads: reads.iter().fold(0, |all, slot| all | 1 << (slot / 8)),
        uses_session,
        may_misalign: true,
        ..counting(0)
    }
}

pub(crate) fn spoil(asm: &mut CodeAssembler) -> Result<(), IcedError> {
    for register in [rcx, rdx, rsi, rdi, r8, r9, r10, r11] {
        asm.mov(register, 0x5a5a_5a5a_5a5a_5a5au64)?;
    }
    Ok(())
}

/// Counts in four values from `first` on; the entry leaves its stack pointer in the cookie, the return compares.
pub(crate) fn session(first: u32) -> Executable {
    program(true, &[AX, SP], |asm, frame| {
        let value = |n: u32| qword_ptr(rax + (8 * (first + n)) as i32);
        let (mut at_return, mut differs) = (asm.create_label(), asm.create_label());
        asm.cmp(word_ptr(rsp + frame(FRAME_IS_RETURN)), 0)?;
        asm.jne(at_return)?;
        asm.lock().inc(value(ENTRIES))?;
        asm.mov(rcx, qword_ptr(rsp + frame(SP as u32)))?;
        asm.mov(qword_ptr(rsp + frame(FRAME_SESSION_COOKIE)), rcx)?;
        spoil(asm)?;
        asm.xor(rax, rax)?;
        asm.ret()?;
        asm.set_label(&mut at_return)?;
        asm.lock().inc(value(RETURNS))?;
        asm.mov(rcx, qword_ptr(rsp + frame(AX as u32)))?;
        asm.lock().add(value(SUM), rcx)?;
        asm.mov(rcx, qword_ptr(rsp + frame(FRAME_SESSION_COOKIE)))?;
        asm.add(rcx, 8)?;
        asm.cmp(rcx, qword_ptr(rsp + frame(SP as u32)))?;
        asm.jne(differs)?;
        asm.lock().inc(value(MATCHED))?;
        asm.set_label(&mut differs)?;
        spoil(asm)?;
        asm.mov(rax, 1u64)?;
        asm.ret()
    })
}

pub(crate) fn session_of(executable: usize) -> Attach {
    Attach { executable, cookie: 0, when: When::Session }
}

/// Attaches `programs` to functions. Those whose returns cannot be caught are refused.
pub(crate) fn arm(
    target: Target,
    functions: &[(&Binary, &Function)],
    programs: &[Attach],
    executables: &[Executable],
) -> Attachment {
    arm_planned(target, functions, plan_returns(functions), programs, executables)
}

/// The same with all return addresses replaced.
pub(crate) fn arm_replaced(
    target: Target,
    functions: &[(&Binary, &Function)],
    programs: &[Attach],
    executables: &[Executable],
) -> Attachment {
    let replaced = vec![Ok(Returns::Replace); functions.len()];
    arm_planned(target, functions, replaced, programs, executables)
}

fn arm_planned(
    target: Target,
    functions: &[(&Binary, &Function)],
    returns: Vec<Result<Returns, Refusal>>,
    programs: &[Attach],
    executables: &[Executable],
) -> Attachment {
    let windows = plan_functions(functions);
    let map = MapSpec::new("values", MapKind::Array, 4, 8, VALUES);
    let writes = functions.len() * limits::WRITES_PER_SITE_MAX + limits::HOOKS_MAX;
    let identity = identity(target.pid());
    let maps = counting::maps(&[map]);
    let prepared = prepare(target, &maps, counting::control(writes), &identity).unwrap();
    let requests: Vec<SiteRequest> = functions
        .iter()
        .zip(windows.iter().zip(&returns))
        .map(|(&(binary, function), (window, returns))| SiteRequest {
            binary,
            function,
            window,
            called: None,
            semaphore: None,
            programs: programs.to_vec(),
            returns: Some(returns.clone()),
        })
        .collect();
    prepared.arm(&requests, executables).unwrap()
}

pub(crate) fn value(attachment: &Attachment, index: u32) -> u64 {
    counting::value(attachment, 0, index)
}
