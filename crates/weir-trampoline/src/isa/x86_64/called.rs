//! What leads from a place of LTTng-UST's to a trampoline: the list of those who are called there, with one entry more.
//!
//! In: the list that the place had, the function of its event that a tracer has called, and where the trampoline is. Out: bytes for
//! an address, which nothing but that function reads.
//!
//! ```text
//! +0        a mark, the place, and what stood there before: for a later weir that finds this
//! +32       struct lttng_ust_event_common: an event that is enabled, of a notifier, whose filter is the trampoline
//! +80       {function, data} of those who were there
//!           {function of the event, address of that struct}
//!           {0, 0}
//! ```
//!
//! At the trampoline programs find the fields in the slots of registers, and the address that the event was emitted at in that of
//! ip. It is a function of C: registers that such a one may change are not saved.
//!
//! The function of the event evaluates the fields for the filter, calls it as
//! `int filter(event, fields, {size, ip}, 0)`, and does nothing more where it answers REJECT, which the trampoline always does.
//! The layout is that of lttng-ust 2.13 and newer (`include/lttng/ust-events.h`, `tracepoint-types.h`).

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeAssembler, qword_ptr, rax, rcx, rdi};
use weir_ebpf::pt_regs;
use weir_plan::limits::{CALLED_BYTES, CALLED_LIST};
use weir_plan::window::{Called, ROW_REGISTER, ROW_SLOTS};

use crate::isa::x86_64::emitter::{Emitter, RCX, SLOTS};

/// What a C function leaves as it was: rbx, rbp, r12 to r15.
const KEPT: [u8; 6] = [3, 5, 12, 13, 14, 15];

/// Saves those of the registers that programs change (bit n: number n) and the caller keeps.
pub(crate) fn keep(out: &mut Emitter, changed: u16) {
    kept(changed).iter().for_each(|&register| out.push(register));
}

/// Words of the stack that this takes, an even number.
pub(crate) fn kept_words(changed: u16) -> i32 {
    kept(changed).len() as i32
}

/// The other way round.
pub(crate) fn give_back(out: &mut Emitter, changed: u16) {
    kept(changed).iter().rev().for_each(|&register| out.pop(register));
}

fn kept(changed: u16) -> Vec<u8> {
    let mut kept: Vec<u8> = KEPT.into_iter().filter(|register| changed >> register & 1 == 1).collect();
    if kept.len() % 2 == 1 {
        kept.push(ROW_REGISTER);
    }
    kept
}

/// Puts the fields that the programs read, by the slots of the context, where they find them. Uses rcx.
pub(crate) fn fields(out: &mut Emitter, called: &Called, is_read: &dyn Fn(i32) -> bool) {
    const IP: i32 = pt_regs::REGISTERS[16] as i32;
    let row = SLOTS[usize::from(ROW_REGISTER)];
    if is_read(row) {
        out.store(ROW_REGISTER, row);
    }
    let slots = ROW_SLOTS.into_iter().map(|slot| 8 * i32::from(slot));
    for (slot, word) in slots.zip(0..).filter(|&(slot, _)| is_read(slot)) {
        match word < i32::from(called.words) {
            true => {
                out.bytes(&[0x48, 0x8b, 0x8e]); // mov 8*word(%rsi),%rcx
                out.bytes(&(8 * word).to_le_bytes());
                out.store(RCX, slot);
            }
            false => out.store_constant(slot, 0),
        }
    }
    if is_read(IP) {
        out.bytes(&[0x48, 0x8b, 0x4a, 0x08]); // mov 8(%rdx),%rcx
        out.store(RCX, IP);
    }
}

/// Where a forked child that has waited to be probed begins its hit again, at `at`: as if the list that the place leads to by now had been
/// called in the first place. Where that is not weir's, it was not probed, and the event is dropped.
pub(crate) fn again(at: u64, place: u64) -> Vec<u8> {
    let code = assemble_again(at, place).expect("the way there can be encoded");
    assert!(code.len() <= AGAIN_BYTES_MAX, "{} bytes", code.len());
    code
}

/// Bytes of it at most.
pub(crate) const AGAIN_BYTES_MAX: usize = 80;

/// Of weir's lists the last entry's data is what stands before the list.
fn assemble_again(at: u64, place: u64) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let (mut next, mut last, mut drop) = (a.create_label(), a.create_label(), a.create_label());
    a.mov(rcx, place + CALLED_LIST as u64)?;
    a.mov(rax, qword_ptr(rcx))?;
    a.test(rax, rax)?;
    a.jz(drop)?;
    a.lea(rcx, qword_ptr(rax - EVENT_BYTES as i32))?;
    a.set_label(&mut next)?;
    a.cmp(qword_ptr(rax + 16), 0)?;
    a.jz(last)?;
    a.add(rax, 16)?;
    a.jmp(next)?;
    a.set_label(&mut last)?;
    a.cmp(qword_ptr(rax + 8), rcx)?;
    a.jne(drop)?;
    a.mov(rdi, rcx)?;
    a.jmp(qword_ptr(rcx + FILTER_OFFSET))?;
    a.set_label(&mut drop)?;
    a.db(&RETURN)?;
    a.assemble(at)
}

/// `mov $1,%eax; ret`: LTTNG_UST_EVENT_FILTER_REJECT.
pub(crate) const RETURN: [u8; 6] = [0xb8, 1, 0, 0, 0, 0xc3];

/// Where the list is in the bytes.
pub(crate) const LIST_OFFSET: u64 = (HEAD_BYTES + EVENT_BYTES) as u64;
const HEAD_BYTES: usize = 32;
const EVENT_BYTES: usize = 48;
/// Before the place.
const MARK: u64 = 0x6c6c_6163_7269_6577;
/// Of the filter in the event.
const FILTER_OFFSET: i32 = 40;

/// How many bytes [`data`] answers.
pub(crate) fn bytes(called: &Called) -> usize {
    LIST_OFFSET as usize + 16 * (called.kept().count() + 2)
}

/// Address of the event that the last entry of weir's list at `list` has.
pub fn event_of(list: u64) -> u64 {
    list.wrapping_sub(EVENT_BYTES as u64)
}

/// What leads from a place to code of weir's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Led {
    /// Where the word before the list's address is.
    pub place: u64,
    /// The list that the place leads to.
    pub list: u64,
    /// What stood there before.
    pub old: [u8; CALLED_BYTES],
}

/// What the bytes of an island at `at` say of places that lead there, or have led there. They may say anything.
pub fn places(bytes: &[u8], at: u64) -> impl Iterator<Item = Led> + '_ {
    let heads = bytes.windows(HEAD_BYTES).step_by(8).zip((at..).step_by(8));
    let word = |head: &[u8], offset: usize| {
        u64::from_le_bytes(head[offset..offset + 8].try_into().expect("8 bytes of a head"))
    };
    heads.filter(move |(head, _)| word(head, 0) == MARK).map(move |(head, at)| Led {
        place: word(head, 8),
        list: at.wrapping_add(LIST_OFFSET),
        old: head[16..].try_into().expect("the rest of a head"),
    })
}

/// What stands at `at`, for a `place` and a trampoline at `filter`.
pub(crate) fn data(at: u64, place: u64, called: &Called, filter: u64) -> Vec<u8> {
    const NOTIFIER: u32 = 1;
    let mut bytes = Vec::with_capacity(self::bytes(called));
    let mut words = |words: &[u64]| words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    let low_and_high = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let event = at + HEAD_BYTES as u64;
    let old = |half: usize| {
        u64::from_le_bytes(called.old[8 * half..8 * half + 8].try_into().expect("half of them"))
    };
    words(&[MARK, place, old(0), old(1)]);
    // struct_size; priv; type; child; enabled and eval_filter; run_filter.
    words(&[EVENT_BYTES as u64, 0, u64::from(NOTIFIER), 0, low_and_high(1, 1), filter]);
    called.kept().for_each(|(function, data)| words(&[function, data]));
    words(&[called.function, event, 0, 0]);
    bytes
}

#[cfg(test)]
mod tests {
    use weir_plan::window::Window;

    use super::*;
    use crate::isa::x86_64::trampoline::generate;
    use crate::isa::x86_64::trampoline::tests::{PLACEMENT, call, disassembled};

    fn window(words: u8) -> Window {
        let called = Called { words, ..Called::default() };
        Window::called(0x1000).with_called(called)
    }

    #[test]
    fn a_program_finds_the_words_in_slots_and_the_filter_says_no() {
        // Word 0 is in slot 14, word 1 in slot 12, word 2 in slot 11; ip is slot 16; rbx and r9 are changed.
        let asked = call(1 << 3 | 1 << 9, true, 1 << 14 | 1 << 12 | 1 << 11 | 1 << 16);
        let lines = disassembled(&generate(&window(2), PLACEMENT, &[asked]).unwrap().code);
        let at = |wanted: &str| {
            let found = lines.iter().position(|line| line == wanted);
            found.unwrap_or_else(|| panic!("{wanted} not in\n{}", lines.join("\n")))
        };
        for (from, to) in [
            ("mov (%rsi),%rcx", "mov %rcx,0x70(%rsp)"),
            ("mov 8(%rsi),%rcx", "mov %rcx,0x60(%rsp)"),
            ("mov 8(%rdx),%rcx", "mov %rcx,0x80(%rsp)"),
        ] {
            assert_eq!(at(from) + 1, at(to), "{from}");
        }
        // There is no third word.
        at("movq $0,0x58(%rsp)");
        // What the caller keeps is saved, in an even number of words; neither r9 nor flags are.
        assert_eq!(at("push %rbx") + 1, at("push %rsi"));
        assert_eq!((at("pop %rsi") + 1, at("pop %rbx") + 1), (at("pop %rbx"), at("mov $1,%eax")));
        assert!(!lines.iter().any(|line| line.contains("%r9") || line.starts_with("lahf")), "{lines:?}");
        let ends = lines.iter().filter(|line| *line == "ret").count();
        assert_eq!(ends, 2, "with programs and without: {lines:?}");
    }

    #[test]
    fn a_hit_begins_again_in_the_last_of_the_list_if_that_is_weirs() {
        let lines = disassembled(&again(PLACEMENT.at, 0x1000));
        let wanted = [
            "movabs $0x1008,%rcx",
            "mov (%rcx),%rax",
            "test %rax,%rax",
            "je 0x00007F0000100031",
            "lea -0x30(%rax),%rcx",
            "cmpq $0,0x10(%rax)",
            "je 0x00007F0000100025",
            "add $0x10,%rax",
            "jmp 0x00007F0000100016",
            "cmp %rcx,8(%rax)",
            "jne 0x00007F0000100031",
            "mov %rcx,%rdi",
            "jmpq *0x28(%rcx)",
            "mov $1,%eax",
            "ret",
        ];
        assert_eq!(lines, wanted);
    }

    #[test]
    fn the_list_has_those_who_were_there_and_then_the_event() {
        let old = [[1, 0, 0, 0, 0, 0, 0, 0], [0x50, 0, 0, 0, 0, 0, 0, 0]].concat();
        let old: [u8; CALLED_BYTES] = old.try_into().unwrap();
        // In another weir's list an event of this one's is not called any more.
        let (others, dropped) = (vec![(0x10, 0x20), (0x30, 0x99)], vec![0x99]);
        let called = Called { old, others, dropped, function: 0x30, words: 1 };
        let data = data(0x1000, 0x2000, &called, 0x40);
        assert_eq!(data.len(), bytes(&called));
        let words: Vec<u64> =
            data.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words[1..4], [0x2000, 1, 0x50]);
        assert_eq!(words[4..10], [48, 0, 1, 0, 1 << 32 | 1, 0x40]);
        assert_eq!(words[10..], [0x10, 0x20, 0x30, 0x1020, 0, 0]);
        // It is found again, whatever is before and behind it.
        let island = [&[0xcc; 24][..], &data, &[0xcc; 7]].concat();
        let found: Vec<Led> = places(&island, 0x1000 - 24).collect();
        assert_eq!(found, [Led { place: 0x2000, list: 0x1050, old }]);
        assert_eq!(places(&island[..40], 0).count(), 0);
    }
}
