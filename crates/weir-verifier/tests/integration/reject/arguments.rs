//! Arguments of helpers, and what helpers lend.

use weir_verifier::{Limits, RejectionKind, verify};

use crate::reject::{FOUND, LOOKUP, RECORD, RESERVE, UNKNOWN, does_not_run, object, refuses};

#[test]
fn arguments_of_helpers() {
    let key = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8";
    refuses(key, "r1 = 0; call map_lookup_elem; exit", "a map is needed, not a number");
    refuses(key, "r1 = r10; call map_lookup_elem; exit", "a map is needed, not a stack pointer");
    refuses(key, "call map_lookup_elem; exit", "a map is needed, not the context");
    refuses(key, "r1 = map[@ring] ll; call map_lookup_elem; exit", "ringbuf, which the helper does not take");
    refuses(
        key,
        "r1 = map[@hash] ll; r2 = 5; call map_lookup_elem; exit",
        "not memory that a helper may reach",
    );
    refuses(key, "r1 = map[@hash] ll; r2 = r1; call map_lookup_elem; exit", "not memory");
    refuses(
        "",
        "r2 = r1; r1 = map[@hash] ll; call map_lookup_elem; exit",
        "the context pointer is not memory",
    );
    refuses(key, "r1 = map[@hash] ll; r2 += 1; call map_lookup_elem; exit", "outside the stack");
    refuses(key, "r1 = map[@hash] ll; r2 += -8; call map_lookup_elem; exit", "never written");
    refuses(
        "",
        "*(u32 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@hash] ll; call 1; exit",
        "never written",
    );
    refuses(key, "r1 = map[@hash] ll; r3 = r2; r4 = 0; call map_update_elem; exit", "outside the stack");
    refuses(
        key,
        "r1 = map[@hash] ll; r3 = r2; r3 += -8; r4 = 0; call map_update_elem; exit",
        "never written",
    );
    refuses(
        key,
        "r1 = map[@percpu] ll; r3 = r2; r4 = r10; call map_update_elem; exit",
        "where a number is needed",
    );
    refuses(key, "r1 = map[@percpu] ll; r3 = r2; call map_update_elem; exit", "r4 is read");
    refuses(
        LOOKUP,
        "r2 = r0; r1 = map[@hash] ll; call map_lookup_elem; exit",
        "must be compared with 0 before",
    );
    refuses(
        FOUND,
        "r2 = r0; r2 += 9; r1 = map[@hash] ll; call map_lookup_elem; exit",
        "not known to be inside",
    );
    refuses("", "r1 = 0; call get_attach_cookie; exit", "the context is needed");
    refuses("", "r1 = r10; r1 += -16; r2 = 17; call get_current_comm; exit", "outside the stack");
    refuses("", "r1 = r10; r1 += -16; r2 = 0; call get_current_comm; exit", "0 is not allowed");
    refuses("", "r1 = r10; r1 += -16; r2 = -1; call get_current_comm; exit", "upper bound");
    refuses("", "r2 = 16; call get_current_comm; exit", "not memory that a helper may reach");
    refuses(UNKNOWN, "r1 = r10; r1 += -16; r2 = r6; call get_current_comm; exit", "0 is not allowed");
    refuses(UNKNOWN, "r1 = r10; r1 += -16; r2 = r6; r3 = 0; call probe_read_user; exit", "upper bound");
    refuses(
        UNKNOWN,
        "r1 = r10; r1 += -16; r6 &= 31; r2 = r6; r3 = 0; call probe_read_user; exit",
        "outside the stack",
    );
    refuses(
        UNKNOWN,
        "r1 = r10; r1 += -16; if r6 s> 16 goto +2; r2 = r6; r3 = 0; call 112; r0 = 0; exit",
        "upper bound",
    );
    refuses(
        "",
        "r1 = r10; r1 += -16; r2 = r10; r3 = 0; call probe_read_user; exit",
        "where a number is needed",
    );
    refuses(FOUND, "r1 = r0; r2 = 17; r3 = 0; call probe_read_user_str; exit", "not known to be inside");
    refuses(
        "",
        "r1 = r10; r1 += -16; r2 = 8; r3 = 0; call probe_read_user; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(
        UNKNOWN,
        "r1 = r10; r1 += -8; r6 &= 7; r2 = r6; r3 = 0; call 112; r0 = *(u8 *)(r10 - 8); exit",
        "never written",
    );
    // A string that ends early leaves the bytes behind it as they were.
    refuses(
        "",
        "r1 = r10; r1 += -8; r2 = 8; r3 = 0; call probe_read_user_str; r0 = *(u64 *)(r10 - 8); exit",
        "never",
    );
    // Every way to read writes what it is told to, and no further.
    for read in
        ["probe_read", "probe_read_kernel", "copy_from_user", "probe_read_str", "probe_read_kernel_str"]
    {
        refuses("", &format!("r1 = r10; r1 += -8; r2 = 9; r3 = 0; call {read}; exit"), "outside the stack");
        refuses(
            "",
            &format!("r1 = r10; r1 += -8; r2 = 8; call {read}; exit"),
            "r3 is read but holds nothing",
        );
        refuses("", &format!("r2 = 8; r3 = 0; call {read}; exit"), "not memory that a helper may reach");
    }
    refuses("", "r1 = r10; r1 += -8; r2 = 8; r3 = 0; call 45; r0 = *(u64 *)(r10 - 8); exit", "never written");
    // Formats and their words.
    let word = "*(u64 *)(r10 - 8) = 0; r1 = r10; r1 += -8";
    refuses(word, "r2 = 9; call trace_printk; exit", "outside the stack");
    refuses(word, "r2 = 0; call trace_printk; exit", "0 is not allowed");
    refuses("", "r1 = r10; r1 += -8; r2 = 8; call trace_printk; exit", "never written");
    refuses(word, "r2 = 8; r3 = r10; r3 += -16; r4 = 8; call trace_vprintk; exit", "never written");
    refuses(word, "r2 = 8; r3 = r10; r3 += -8; r4 = 16; call trace_vprintk; exit", "outside the stack");
    refuses(word, "r2 = 8; r3 = 0; r4 = 8; call trace_vprintk; exit", "not memory that a helper may reach");
    // Constant strings.
    refuses(word, "r2 = 8; r3 = r10; r3 += -8; call strncmp; exit", "a constant string is needed");
    refuses(word, "r2 = 8; r3 = 0; call strncmp; exit", "a constant string is needed");
    refuses(word, "r2 = 8; r3 = map[@array][0] ll; r3 += 16; call strncmp; exit", "a constant place");
    refuses(word, "r2 = 8; r3 = map[@array][0] ll; r3 += -1; call strncmp; exit", "a constant place");
    refuses(word, "r2 = 8; r3 = map[@lanes][0] ll; call strncmp; exit", "a constant string is needed");
    let unknown = format!("{UNKNOWN}; r6 &= 7; {word}");
    refuses(&unknown, "r2 = 8; r3 = map[@array][0] ll; r3 += r6; call strncmp; exit", "a constant place");
    refuses(FOUND, "r3 = r0; r1 = r10; r1 += -8; r2 = 8; call strncmp; exit", "a constant string is needed");
    refuses(word, "r2 = 8; r3 = map[@array] ll; call strncmp; exit", "a constant string is needed");
    refuses("", "r1 = 0; r2 = 1; r3 = map[@array][0] ll; r4 = 0; r5 = 0; call snprintf; exit", "not memory");
    refuses(
        "",
        "r1 = r10; r1 += -8; r2 = 9; r3 = map[@array][0] ll; r4 = 0; r5 = 0; call snprintf; exit",
        "outside",
    );
    refuses(
        "",
        "r1 = r10; r1 += -8; r2 = 8; r3 = map[@array][0] ll; r4 = 0; r5 = 0; call snprintf; r0 = *(u64 *)(r10 - 8); exit",
        "never written",
    );
    refuses(word, "r2 = 16; r3 = 0; r4 = 0; r5 = 0; call csum_diff; exit", "outside the stack");
    refuses(
        word,
        "r2 = 8; r3 = 0; r4 = 4; r5 = 0; call csum_diff; exit",
        "not memory that a helper may reach",
    );
    // Stacks, perf events, control groups.
    let not_taken = "which the helper does not take";
    refuses("", "r2 = map[@hash] ll; r3 = 0; call get_stackid; exit", not_taken);
    refuses("", "r2 = map[@stacks] ll; r1 = 0; r3 = 0; call get_stackid; exit", "the context is needed");
    refuses("", "r2 = map[@stacks] ll; r3 = r10; call get_stackid; exit", "where a number is needed");
    refuses("", "r2 = r10; r2 += -8; r3 = 16; r4 = 0; call get_stack; exit", "outside the stack");
    refuses(
        "",
        "r1 = r10; r2 = r10; r2 += -8; r3 = 8; r4 = 0; call get_stack; exit",
        "the context is needed",
    );
    refuses(
        word,
        "r1 = 0; r2 = map[@perf] ll; r3 = 0; r4 = r10; r4 += -8; r5 = 8; call 25; exit",
        "the context is needed",
    );
    refuses("", "r2 = map[@ring] ll; r3 = 0; r4 = 0; r5 = 0; call perf_event_output; exit", not_taken);
    refuses("", "r2 = map[@perf] ll; r3 = 0; r4 = r10; r4 += -8; r5 = 8; call 25; exit", "never written");
    refuses(
        "",
        "r2 = map[@perf] ll; r3 = 0; r4 = r1; r5 = 8; call perf_event_output; exit",
        "not memory that a helper",
    );
    refuses("", "r1 = map[@stacks] ll; r2 = 0; call current_task_under_cgroup; exit", not_taken);
    for map in ["perf", "stacks", "groups"] {
        let key = format!("*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = r2; r4 = 0; r1 = map[@{map}] ll");
        for helper in ["map_lookup_elem", "map_update_elem", "map_delete_elem"] {
            refuses(&key, &format!("call {helper}; r0 = 0; exit"), not_taken);
        }
        refuses("", &format!("r1 = map[@{map}][0] ll; r0 = 0; exit"), "no fixed address");
    }
    // Maps that other maps hold.
    let outer = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r1 = map[@outer] ll";
    let held = &format!("{outer}; call 1; if r0 != 0 goto +1; exit; r6 = r0; r1 = r0; r2 = r10; r2 += -8");
    refuses(
        outer,
        "call 1; r1 = r0; r2 = r10; r2 += -8; call 1; r0 = 0; exit",
        "must be compared with 0 first",
    );
    refuses(outer, "r3 = r2; r4 = 0; call map_update_elem; exit", "programs only look them up");
    refuses(outer, "call map_delete_elem; exit", "programs only look them up");
    refuses(held, "r0 = *(u64 *)(r6 + 0); exit", "not a pointer to memory");
    refuses(held, "*(u64 *)(r6 + 0) = 0; r0 = 0; exit", "not a pointer to memory");
    refuses(held, "r6 += 8; r0 = 0; exit", "arithmetic on a map like @hash");
    refuses(held, "r0 = r6; exit", "leak");
    refuses(held, "call 1; r0 = *(u64 *)(r0 + 0); exit", "must be compared with 0 first");
    refuses(held, "call 1; if r0 != 0 goto +1; exit; r0 = *(u64 *)(r0 + 16); exit", "not known to be inside");
    refuses(held, "r3 = 8; r4 = 0; call ringbuf_output; exit", not_taken);
    refuses(held, "r2 += -8; call 1; r0 = 0; exit", "never written");
    refuses("", "r1 = map[@outer][0] ll; r0 = 0; exit", "no fixed address");
    // The rest.
    refuses(
        "",
        "r1 = 1; r2 = 1; r3 = r10; r3 += -8; r4 = 16; call get_ns_current_pid_tgid; exit",
        "outside the stack",
    );
    refuses("", "r1 = r10; call get_func_ip; exit", "the context is needed");
    refuses("", "r1 = map[@hash] ll; r2 = 0; call ringbuf_query; exit", "which the helper does not take");
    refuses("", "r1 = 9; call send_signal; exit", "has to be allowed expressly");
    refuses("", "r1 = 9; call send_signal_thread; exit", "has to be allowed expressly");
    refuses("", "call probe_write_user; exit", "has to be allowed expressly");
    for (number, reason) in [
        (35, "get_current_task (35): the task_struct"),
        (58, "override_return (58)"),
        (153, "per_cpu_ptr (153): per-CPU variables of the kernel"),
        (154, "this_cpu_ptr (154)"),
        (158, "get_current_task_btf (158)"),
    ] {
        does_not_run("", &format!("call {number}; exit"), reason);
    }
    does_not_run("", "call 9; exit", "weir does not have skb_store_bytes (9)");
    does_not_run("", "call 44; exit", "xdp_adjust_head is for XDP");
    does_not_run("", "call cgrp_storage_delete; exit", "weir does not have cgrp_storage_delete (211)");
    does_not_run("", "call 212; exit", "no helper number 212");
    does_not_run("", "call 0; exit", "no helper number 0");
    does_not_run("", "call 0x7fffffff; exit", "no helper number");
    does_not_run("", "call -1; exit", "no helper number -1");
}

#[test]
fn ring_records() {
    let ring = "r1 = map[@ring] ll";
    refuses(RESERVE, "r0 = 0; exit", "neither submitted nor discarded");
    refuses(RESERVE, "if r0 == 0 goto +1; r0 = 0; exit", "neither submitted nor discarded");
    refuses(RESERVE, "*(u64 *)(r0 + 0) = 0; exit", "must be compared with 0 first");
    refuses(RESERVE, "r1 = r0; r2 = 0; call ringbuf_submit; r0 = 0; exit", "may be null");
    refuses(RECORD, "r0 = 0; exit", "neither submitted nor discarded");
    refuses(RECORD, "*(u64 *)(r6 + 25) = 0; exit", "not known to be inside its 32 bytes");
    refuses(RECORD, "r0 = *(u8 *)(r6 + 32); exit", "not known to be inside its 32 bytes");
    refuses(RECORD, "r0 = *(u8 *)(r6 - 1); exit", "not known to be inside");
    refuses(
        RECORD,
        "r1 = r6; r1 += 8; r2 = 0; call ringbuf_submit; r0 = 0; exit",
        "the start of a ring record",
    );
    refuses(RECORD, "r1 = r6; r2 = r6; call ringbuf_submit; r0 = 0; exit", "where a number is needed");
    refuses(RECORD, "r1 = r6; r2 = 0; call ringbuf_submit; *(u64 *)(r6 + 0) = 0; exit", "r6 is read");
    refuses(
        RECORD,
        "r7 = r6; r1 = r6; r2 = 0; call 132; r1 = r7; r2 = 0; call 132; r0 = 0; exit",
        "r7 is read",
    );
    refuses(
        RECORD,
        "*(u64 *)(r10 - 8) = r6; r1 = r6; r2 = 0; call 133; r1 = *(u64 *)(r10 - 8); r2 = 0; call 132
        r0 = 0; exit",
        "r1 is read",
    );
    refuses(
        RECORD,
        "r7 = *(u64 *)(r6 + 0); if r7 == 0 goto +3; r1 = r6; r2 = 0; call 132; r0 = 0; exit",
        "neither",
    );
    refuses(
        RECORD,
        "r1 = map[@ring] ll; r2 = 32; r3 = 0; call 131; if r0 == 0 goto +3; r1 = r0; r2 = 0; call 132
        r1 = r6; r2 = 0; call 132; r1 = r6; r2 = 0; call 132; r0 = 0; exit",
        "r6 is read",
    );
    refuses(
        "",
        "r1 = r10; r1 += -8; r2 = 0; call ringbuf_submit; r0 = 0; exit",
        "the start of a ring record",
    );
    refuses(FOUND, "r1 = r0; r2 = 0; call ringbuf_submit; r0 = 0; exit", "the start of a ring record");
    refuses(ring, "r2 = 0; r3 = 0; call ringbuf_reserve; exit", "a record of 0 bytes");
    refuses(ring, "r2 = 4089; r3 = 0; call ringbuf_reserve; exit", "the limits are 1 and 4088");
    refuses(ring, "r2 = -1; r3 = 0; call ringbuf_reserve; exit", "the limits are");
    refuses(
        &format!("{UNKNOWN}; {ring}"),
        "r2 = r6; r3 = 0; call ringbuf_reserve; exit",
        "must be a constant",
    );
    refuses("r1 = map[@hash] ll", "r2 = 8; r3 = 0; call ringbuf_reserve; exit", "the helper does not take");
    refuses(ring, "r2 = r10; r2 += -8; r3 = 8; r4 = 0; call ringbuf_output; exit", "never written");
    refuses(
        ring,
        "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = 9; r4 = 0; call 130; exit",
        "outside the stack",
    );
}

#[test]
fn what_changes_the_process_is_allowed_on_demand() {
    let limits = Limits { allow_changes: true, ..Limits::default() };
    let allowed = |text: &str| {
        let object = object("*(u64 *)(r10 - 8) = 0", text);
        verify(&object.programs[0], &object.maps, &limits)
    };
    for text in [
        "r1 = 10; call send_signal; exit",
        "r1 = 10; call send_signal_thread; exit",
        "r1 = 5; r2 = r10; r2 += -8; r3 = 8; call probe_write_user; exit",
    ] {
        assert!(allowed(text).is_ok(), "{text}");
    }
    for text in [
        "r1 = r10; call send_signal; exit",
        "r1 = 5; r2 = r10; r2 += -8; r3 = 9; call probe_write_user; exit",
        "r1 = 5; r2 = r10; r2 += -8; r3 = 0; call probe_write_user; exit",
    ] {
        assert_eq!(allowed(text).expect_err("is no call of it").kind, RejectionKind::Unsafe, "{text}");
    }
}
