//! Callbacks, functions of the kernel, and tail calls.

use weir_ebpf::{Insn, asm};
use weir_verifier::RejectionKind;

use crate::reject::{MAPS, RECORD, does_not_run, refuses, refuses_slot, rejection};

/// The callback is the function `f` for each of the rounds.
#[test]
fn callbacks() {
    let call = |arguments: &str, after: &str, f: &str| {
        format!("{arguments}; r4 = 0; call loop; {after}; r0 = 0; exit; f: {f}")
    };
    let plain = "r1 = 9; r2 = f ll; r3 = 0";
    let with_slot = "*(u64 *)(r10 - 8) = 0; r1 = 9; r2 = f ll; r3 = r10; r3 += -8";
    let check =
        |arguments: &str, after: &str, f: &str, part: &str| refuses("", &call(arguments, after, f), part);
    // What the callback answers.
    check(plain, "", "r0 = 2; exit", "a callback answers 0, to go on, or 1, to stop");
    check(plain, "", "r0 = -1; exit", "a callback answers 0");
    check(plain, "", "r0 = r1; exit", "a callback answers 0");
    check(plain, "", "r0 = r10; exit", "stack of the function that ends here");
    check(plain, "", "r0 = f ll; exit", "where a number is needed");
    check(plain, "", "exit", "r0 is read but holds nothing");
    // What it is given.
    check(plain, "", "r0 = r3; exit", "r3 is read but holds nothing");
    check(plain, "", "r0 = r6; exit", "r6 is read but was never written");
    check(plain, "", "r0 = *(u64 *)(r2 + 0); exit", "not a pointer to memory");
    check(with_slot, "", "*(u64 *)(r2 + 8) = 1; r0 = 0; exit", "outside the stack");
    // The arguments of the helper.
    check("r1 = 9; r2 = 0; r3 = 0", "", "r0 = 0; exit", "a function of the program is needed, not a number");
    check(
        "r1 = 9; r2 = r10; r3 = 0",
        "",
        "r0 = 0; exit",
        "a function of the program is needed, not a stack pointer",
    );
    check(
        "r3 = r1; r1 = 9; r2 = f ll",
        "",
        "r0 = 0; exit",
        "a stack pointer or 0 is needed, not the context",
    );
    check("r1 = 9; r2 = f ll; r3 = 5", "", "r0 = 0; exit", "a stack pointer or 0 is needed");
    check("r1 = r10; r2 = f ll; r3 = 0", "", "r0 = 0; exit", "where a number is needed");
    check("r2 = f ll; r3 = 0", "r1 = 9", "r0 = 0; exit", "r1 of loop");
    // The address of a function goes nowhere else.
    let leak = |text: &str, part: &str| refuses("", &format!("{text}; r0 = 0; exit; f: r0 = 0; exit"), part);
    leak("r0 = f ll; exit", "where it would leak");
    leak("r2 = f ll; r1 = map[@array][0] ll; *(u64 *)(r1 + 0) = r2", "stored outside the stack");
    leak("r2 = f ll; r2 += 8", "arithmetic on the function");
    leak("r2 = f ll; w3 = w2", "a part of the function");
    leak("r2 = f ll; r0 = *(u64 *)(r2 + 0)", "not a pointer to memory");
    leak("r2 = f ll; *(u64 *)(r2 + 0) = 0", "not a pointer to memory");
    leak("r2 = f ll; if r2 == 5 goto +0", "compared with something else than 0");
    leak("r2 = f ll; r3 = *(u64 *)(r1 + 0); r3 += r2", "arithmetic on the function");
    leak("r1 = f ll; *(u64 *)(r10 - 8) = r1; r0 = *(u32 *)(r10 - 8)", "part of a pointer");
    leak(
        "r1 = f ll; *(u64 *)(r10 - 8) = r1; r2 = r10; r2 += -8; r1 = map[@hash] ll; call 1",
        "part of a pointer",
    );
    refuses_slot(Insn { opcode: 0x18, dst: 1, src: 4, off: 0, imm: 1 }, "");
    leak("r1 = pc+0x7000 ll", "outside the program");
    leak("r1 = pc+0x0 ll", "middle of a wide load");
    // What it leaves: the caller's stack is as some number of rounds made it.
    let bounded = "*(u64 *)(r10 - 8) = 8; r1 = 9; r2 = f ll; r3 = r10; r3 += -8";
    let index = "r1 = *(u64 *)(r10 - 8); r2 = map[@array][0] ll; r2 += r1; r0 = *(u64 *)(r2 + 0)";
    check(bounded, index, "*(u64 *)(r2 + 0) = 9; r0 = 0; exit", "not known to be inside");
    check(
        bounded,
        index,
        "r3 = *(u64 *)(r2 + 0); r3 += 1; *(u64 *)(r2 + 0) = r3; r0 = 0; exit",
        "not known to be inside",
    );
    check(
        bounded,
        "r1 = *(u64 *)(r10 - 8)",
        "r3 = *(u64 *)(r2 + 0); *(u64 *)(r2 + 0) = r10; r0 = 0; exit",
        "outlive it",
    );
    let unwritten = "r1 = 9; r2 = f ll; r3 = r10; r3 += -8";
    check(unwritten, "r1 = *(u64 *)(r10 - 8)", "*(u64 *)(r2 + 0) = 1; r0 = 0; exit", "never written");
    let pointer = "*(u64 *)(r10 - 8) = r10; r1 = 9; r2 = f ll; r3 = r10; r3 += -8";
    check(pointer, "r1 = *(u64 *)(r10 - 8); r0 = *(u64 *)(r1 - 8)", "*(u64 *)(r2 + 0) = 1; r0 = 0; exit", "");
    // A round that is right only as the first.
    check(
        pointer,
        "",
        "r3 = *(u64 *)(r2 + 0); r3 = *(u64 *)(r3 - 8); *(u64 *)(r2 + 0) = 1; r0 = 0; exit",
        "",
    );
    // The elements of a map.
    let each = "r1 = map[@hash] ll; r2 = f ll; r3 = 0";
    let each = |f: &str, part: &str| {
        refuses("", &format!("{each}; r4 = 0; call for_each_map_elem; r0 = 0; exit; f: {f}"), part);
    };
    each("*(u64 *)(r2 + 0) = 1; r0 = 0; exit", "a key of @hash is read by plain loads alone");
    each("r1 = 1; lock *(u64 *)(r2 + 0) += r1; r0 = 0; exit", "a key of @hash is read by plain loads alone");
    each("r0 = *(u64 *)(r2 + 1); r0 = 0; exit", "not known to be inside its 8 bytes");
    each("r2 += 8; r0 = *(u8 *)(r2 + 0); r0 = 0; exit", "not known to be inside its 8 bytes");
    each("r0 = *(u64 *)(r3 + 16); r0 = 0; exit", "not known to be inside its 16 bytes");
    each("r1 = r2; r2 = 8; call get_current_comm; r0 = 0; exit", "is not to be written");
    each("r1 = map[@array][0] ll; *(u64 *)(r1 + 0) = r2; r0 = 0; exit", "stored outside the stack");
    each("r0 = r2; exit", "where a number is needed");
    each("r0 = *(u64 *)(r4 + 0); exit", "not a pointer to memory");
    each("r0 = r5; exit", "r5 is read but holds nothing");
    each("r0 = 2; exit", "a callback answers 0");
    let of = |map: &str| {
        format!(
            "r1 = map[{map}] ll; r2 = f ll; r3 = 0; r4 = 0; call for_each_map_elem; exit; f: r0 = 0; exit"
        )
    };
    refuses("", &of("@ring"), "a map of kind ringbuf, which the helper does not take");
    refuses("", &of("@queue"), "a map of kind queue, which the helper does not take");
    refuses("", &of("@trie"), "a map of kind lpm_trie, which the helper does not take");
    refuses(
        "",
        "r1 = 5; r2 = f ll; r3 = 0; r4 = 0; call for_each_map_elem; exit; f: r0 = 0; exit",
        "a map is needed",
    );
    // Records.
    let reserve = "r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve; if r0 == 0 goto +0";
    check(plain, "", &format!("{reserve}; r0 = 0; exit"), "neither submitted nor discarded at its end");
    check(plain, "", &format!("{reserve}; r0 = 1; exit"), "neither submitted nor discarded at its end");
    let record =
        "*(u64 *)(r10 - 8) = r6; r1 = 9; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = 0; exit
        f: r1 = *(u64 *)(r2 + 0); r2 = 0; call ringbuf_submit; r0 = 1; exit";
    refuses(RECORD, record, "gives back a ring record that it did not reserve");
    // Ends.
    let endless = "here: r1 = 1; r2 = f ll; r3 = 0; r4 = 0; call loop; goto here; f: r0 = 0; exit";
    refuses("", endless, "the loop may not end");
    check(plain, "", "here: goto here; r0 = 0; exit", "the loop may not end");
    let restarted = "*(u64 *)(r10 - 8) = 0; here: r1 = 1; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r1 = *(u64 *)(r10 - 8)
        if r1 == 5 goto out; *(u64 *)(r10 - 8) = 5; goto here; out: r0 = 0; exit
        f: r6 = r2; call ktime_get_ns; *(u64 *)(r6 + 0) = r0; r0 = 0; exit";
    refuses("", restarted, "the loop may not end");
    // Nesting.
    check(plain, "", "r1 = 9; r2 = f ll; r3 = 0; r4 = 0; call loop; r0 = 0; exit", "");
    check(plain, "", "call f; r0 = 0; exit", "recursive");
    check(
        plain,
        "",
        "call g; r0 = 0; exit; g: r1 = 9; r2 = f ll; r3 = 0; r4 = 0; call loop; exit",
        "nest deeper than 8",
    );
    let deep: String = (1..=8)
        .map(|n| format!("f{n}: r1 = 9; r2 = f{} ll; r3 = 0; r4 = 0; call loop; r0 = 0; exit\n", n + 1))
        .collect();
    let deep = format!("r1 = 9; r2 = f1 ll; r3 = 0; r4 = 0; call loop; r0 = 0; exit\n{deep}f9: r0 = 0; exit");
    refuses("", &deep, "calls and callbacks nest deeper than 8");
    check(
        "*(u64 *)(r10 - 264) = 0; r1 = 9; r2 = f ll; r3 = 0",
        "",
        "*(u64 *)(r10 - 256) = 0; r0 = 0; exit",
        "take 528 bytes",
    );
    let varied = "r2 = f ll; r3 = *(u64 *)(r1 + 0); if r3 == 0 goto +2; r2 = g ll; r1 = 9; r3 = 0; r4 = 0; call loop; r0 = 0; exit
        f: r0 = 0; exit; g: r0 = 0; exit";
    does_not_run("", varied, "the callback differs from path to path");
}

/// A callback's key is there as long as the callback runs, so it leaves it in no frame but its own.
#[test]
fn keys_do_not_outlive_their_callbacks() {
    let before = "*(u64 *)(r10 - 16) = 0; r1 = r10; r1 += -16; *(u64 *)(r10 - 8) = r1
        r1 = map[@hash] ll; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call for_each_map_elem
        r1 = *(u64 *)(r10 - 8); r0 = *(u64 *)(r1 + 0); exit";
    let part = "where it would outlive the callback";
    let check = |f: &str| refuses("", &format!("{before}; f: {f}"), part);
    check("*(u64 *)(r4 + 0) = r2; r0 = 0; exit");
    check("r2 += 4; *(u64 *)(r4 + 0) = r2; r0 = 0; exit");
    check("store_release((u64 *)(r4 + 0), r2); r0 = 0; exit");
    check("*(u64 *)(r10 - 8) = r2; r1 = *(u64 *)(r10 - 8); *(u64 *)(r4 + 0) = r1; r0 = 0; exit");
    check("r1 = r2; r2 = r4; call g; r0 = 0; exit; g: *(u64 *)(r2 + 0) = r1; exit");
    check(
        "r1 = r2; call g; *(u64 *)(r4 + 0) = r0; r0 = 0; exit; g: r0 = r1; exit"
            .replace("call g;", "r6 = r4; call g; r4 = r6;")
            .as_str(),
    );
    // One that is given to another's callback.
    check(
        "*(u64 *)(r10 - 8) = r2; *(u64 *)(r10 - 16) = r4; r1 = map[@hash] ll; r2 = g ll; r3 = r10; r3 += -16; r4 = 0
            call for_each_map_elem; r0 = 0; exit
            g: r1 = *(u64 *)(r4 + 8); r5 = *(u64 *)(r4 + 0); *(u64 *)(r5 + 0) = r1; r0 = 0; exit",
    );
}

#[test]
fn kernel_functions() {
    let cookie = "call bpf_session_cookie";
    refuses(cookie, "exit", "where it would leak");
    refuses(cookie, "r0 = *(u64 *)(r0 + 8); exit", "not known to be inside its 8 bytes");
    refuses(cookie, "r0 = *(u64 *)(r0 - 1); exit", "not known to be inside its 8 bytes");
    refuses(cookie, "*(u64 *)(r0 + 0) = r10; r0 = 0; exit", "stored outside the stack");
    refuses(cookie, "r1 = 1; lock *(u32 *)(r0 + 2) += r1; r0 = 0; exit", "may not be aligned");
    refuses("r2 = 5; call bpf_session_is_return", "r0 = r2; exit", "r2 is read but holds nothing");
    does_not_run("", "call btf 0x5; r0 = 0; exit", "a kernel function by BTF id");
    does_not_run("", "call f; exit; f: call bpf_session_is_return; exit", "in a function of the program");
    let text =
        MAPS.replace("program \"p\" probe", "program \"p\" xdp") + "call bpf_session_is_return\nexit\n";
    let object = asm::parse(&text).expect("is assembly text");
    let rejection = rejection(&object);
    assert_eq!(rejection.kind, RejectionKind::Unsupported, "{rejection}");
}

#[test]
fn tail_calls() {
    let call = "r2 = map[@jumps] ll; r3 = 0; call tail_call";
    refuses("", &format!("{call}; exit"), "r0 holds nothing");
    refuses("", &format!("{call}; r0 = r3; exit"), "r3 is read but holds nothing");
    refuses(
        "",
        "r2 = map[@array] ll; r3 = 0; call tail_call; r0 = 0; exit",
        "a map of kind array, which the helper",
    );
    refuses(
        "",
        "r2 = map[@ring] ll; r3 = 0; call tail_call; r0 = 0; exit",
        "a map of kind ringbuf, which the helper",
    );
    refuses("", "r2 = 5; r3 = 0; call tail_call; r0 = 0; exit", "a map is needed");
    refuses("", "r2 = map[@jumps] ll; r3 = r10; call tail_call; r0 = 0; exit", "where a number is needed");
    refuses("r1 = r10", &format!("{call}; r0 = 0; exit"), "the context is needed, not a stack pointer");
    refuses(RECORD, &format!("r7 = r6; r1 = 0; {call}; r0 = 0; exit"), "the context is needed");
    let record = "r7 = r1; r1 = map[@ring] ll; r2 = 32; r3 = 0; call ringbuf_reserve; if r0 != 0 goto +1; exit; r1 = r7";
    refuses(record, &format!("{call}; r0 = 0; exit"), "before another program takes over");
    // No program looks at slots.
    let lookup = "*(u32 *)(r10 - 4) = 0; r2 = r10; r2 += -4; r1 = map[@jumps] ll; call 1; r0 = 0; exit";
    refuses("", lookup, "a map of kind prog_array, which the helper does not take");
    refuses("", "r1 = map[@jumps][0] ll; r0 = 0; exit", "no fixed address");
    does_not_run("", &format!("call f; exit; f: {call}; r0 = 0; exit"), "tail calls from a function");
    let varied = "r2 = map[@jumps] ll; r4 = *(u64 *)(r1 + 0); if r4 == 0 goto +2; r2 = map[@more] ll; r3 = 0; call tail_call
        r0 = 0; exit";
    does_not_run("", varied, "differs from path to path");
    let in_callback = "r6 = r1; *(u64 *)(r10 - 8) = r1; r1 = 3; r2 = f ll; r3 = r10; r3 += -8; r4 = 0; call loop; r0 = 0; exit
        f: r1 = *(u64 *)(r2 + 0); r2 = map[@jumps] ll; r3 = 0; call tail_call; r0 = 0; exit";
    does_not_run("", in_callback, "tail calls from a function");
}
