//! Programs of packets and memory: the answer, the bytes and the context afterwards are the same in the interpreters and
//! in the JIT for every kind of site, and are those that each case states.

use crate::engines;

use engines::abis;
use weir_interp::Environment;
use weir_interp::threaded::Threaded;
use weir_jit::Flags;
use weir_rt::Context;
use weir_rt::local::{LocalProgram, PacketFields};

/// r7 = the packet, r8 = its end.
const ENDS: &str = "r7 = *(u32 *)(r1 + 0)\nr8 = *(u32 *)(r1 + 4)\n";

/// Runs `text` (`;` ends a line) on what `context` makes, in both engines; r0 and the context afterwards.
fn run(kind: &str, text: &str, context: &dyn Fn() -> Context) -> (u64, Context) {
    run_with("", kind, text, context)
}

/// The same with maps.
fn run_with(maps: &str, kind: &str, text: &str, context: &dyn Fn() -> Context) -> (u64, Context) {
    let text = format!("{maps}program \"p\" {kind}\n{}\n", text.replace(';', "\n"));
    let (object, program) = engines::only(&text);
    let segment = engines::segment(&object.maps, engines::cpus());
    let mut expected = context();
    let r0 = weir_interp::run(&program, &Environment { segment: &segment }, &mut expected).expect("verified");
    if let Some(threaded) = Threaded::of(&program, &segment) {
        let mut own = context();
        assert_eq!((threaded.run(&mut own), own.bytes()), (r0, expected.bytes()), "{text}");
    }
    for abi in abis() {
        for flags in [Flags::KeepIfPossible, Flags::Change, Flags::KeepEach] {
            let executable = engines::compiled(&program, &abi, flags);
            let local = LocalProgram::load(&executable, &segment).expect("code fits");
            let mut own = context();
            let got = local.run(&mut own);
            let listing = || weir_jit::disassemble(&executable, &object);
            assert_eq!(got, r0, "{abi:?}\n{}", listing());
            assert_eq!(own.bytes(), expected.bytes(), "{abi:?}\n{}", listing());
            assert_eq!(own.bytes_before(8), expected.bytes_before(8), "{abi:?}\n{}", listing());
            for offset in (0..192).step_by(4) {
                assert_eq!(own.field(offset), expected.field(offset), "{offset} {abi:?}\n{}", listing());
            }
        }
    }
    (r0, expected)
}

fn xdp(text: &str, bytes: &[u8], r0: u64, after: &[u8]) {
    let context = || {
        let mut context = Context::xdp(&[1, 2, 3, 4, 5, 6, 7, 8], bytes);
        context.set_field("ingress_ifindex", 0x8000_0003);
        context.set_field("rx_queue_index", 7);
        context
    };
    let (got, context) = run("xdp", text, &context);
    assert_eq!((got, context.bytes()), (r0, after.to_vec()), "{text}");
}

fn memory(text: &str, bytes: &[u8], r0: u64, after: &[u8]) {
    let (got, context) = run(&format!("memory {}", bytes.len()), text, &|| Context::memory(bytes));
    assert_eq!((got, context.bytes()), (r0, after.to_vec()), "{text}");
}

#[test]
fn packets_are_read_and_written_as_far_as_they_reach() {
    let text = &format!(
        "{ENDS}r0 = 0; r2 = r7; r2 += 3; if r2 > r8 goto +4; r0 = *(u16 *)(r7 + 1); r3 = *(u8 *)(r7 + 0)
         *(u8 *)(r7 + 2) = r3; *(u8 *)(r7 + 0) = 9; exit"
    );
    xdp(text, &[], 0, &[]);
    xdp(text, &[1, 2], 0, &[1, 2]);
    xdp(text, &[1, 2, 3], 0x302, &[9, 2, 1]);
    xdp(text, &[1, 2, 3, 4], 0x302, &[9, 2, 1, 4]);
    let last = &format!("{ENDS}r0 = 0; r2 = r7; r2 += 2; if r8 <= r2 goto +1; r0 = *(u8 *)(r7 + 2); exit");
    xdp(last, &[5, 6], 0, &[5, 6]);
    xdp(last, &[5, 6, 7], 7, &[5, 6, 7]);
}

#[test]
fn fields_of_the_context_have_their_places() {
    xdp("r0 = *(u32 *)(r1 + 12); r2 = *(u32 *)(r1 + 16); r0 += r2; exit", &[], 0x8000_000a, &[]);
    xdp(&format!("{ENDS}r8 -= r7; r0 = r8; exit"), &[0; 60], 60, &[0; 60]);
    // Through the stack and into a function, the context's address is in a register.
    xdp("*(u64 *)(r10 - 8) = r1; r2 = *(u64 *)(r10 - 8); r0 = *(u32 *)(r2 + 16); exit", &[], 7, &[]);
    xdp(
        "r6 = r1; call f; exit; f: r2 = *(u32 *)(r1 + 0); r0 = *(u32 *)(r1 + 4); r0 -= r2; exit",
        &[1; 9],
        9,
        &[1; 9],
    );
}

/// A packet that the loopback device received, for a program of a control group: as the kernel gives it, behind its link
/// header.
#[test]
fn programs_of_control_groups_see_packets_from_the_network_header_on() {
    let mut bytes = [0u8; 60];
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    bytes[33] = 9;
    let ends = "r7 = *(u32 *)(r1 + 76); r8 = *(u32 *)(r1 + 80)";
    for (text, r0) in [
        (
            format!(
                "{ends}; r0 = 0; r2 = r7; r2 += 20; if r2 > r8 goto +2; r0 = *(u8 *)(r7 + 19); r0 &= 1; exit"
            ),
            1,
        ),
        (format!("{ends}; r8 -= r7; r0 = 0; if r8 != 46 goto +1; r0 = 1; exit"), 1),
        ("r2 = *(u32 *)(r1 + 0); r0 = 0; if r2 != 46 goto +1; r0 = 1; exit".to_owned(), 1),
        ("r2 = *(u32 *)(r1 + 16); r0 = 0; if r2 != 8 goto +1; r0 = 1; exit".to_owned(), 1),
        (
            "r2 = 19; r3 = r10; r3 += -1; r4 = 1; call skb_load_bytes; r0 = *(u8 *)(r10 - 1); r0 &= 1; exit"
                .to_owned(),
            1,
        ),
    ] {
        let received =
            || Context::received(weir_ebpf::ProgramKind::CgroupSkb, &bytes).expect("a kind of packets");
        let (got, _) = run("cgroup_skb", &text, &received);
        assert_eq!(got, r0, "{text}");
        if let Err(reason) = testkit::kernel::available() {
            testkit::skip::skip("isa::kernel", reason);
            continue;
        }
        let text = format!("program \"p\" cgroup_skb\n{}\n", text.replace(';', "\n"));
        let loaded = testkit::kernel::load(&weir_ebpf::asm::parse(&text).expect("is text"));
        let loaded = loaded.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let input = weir_kernel::Input { bytes: &bytes, ..Default::default() };
        assert_eq!(loaded.programs[0].run(input, 1).map(|ran| ran.r0).ok(), Some(r0), "{text}");
    }
}

#[test]
fn sockets_and_messages_have_their_fields() {
    let message = || Context::sk_msg(&[1, 2, 3, 4, 5]);
    let ends = "r7 = *(u64 *)(r1 + 0); r8 = *(u64 *)(r1 + 8)";
    let text = format!(
        "{ends}; r0 = *(u32 *)(r1 + 68); r2 = r7; r2 += 4; if r2 > r8 goto +3; r3 = *(u8 *)(r7 + 3); r0 += r3
         *(u8 *)(r7 + 0) = 9; exit"
    );
    let (r0, after) = run("sk_msg", &text, &message);
    assert_eq!((r0, after.bytes()), (9, vec![9, 2, 3, 4, 5]));
    let socket: Vec<u8> = (1..=80).collect();
    for (text, r0) in [
        ("r0 = *(u32 *)(r1 + 4); if r0 == 0x8070605 goto +1; r0 = 0; r0 &= 1; exit", 1),
        ("r2 = *(u16 *)(r1 + 52); r0 = 0; if r2 != 0x3635 goto +1; r0 = 1; exit", 1),
        ("*(u32 *)(r1 + 16) = 7; r2 = *(u32 *)(r1 + 16); r0 = 0; if r2 != 7 goto +1; r0 = 1; exit", 1),
    ] {
        let (got, after) = run("cgroup_sock", text, &|| Context::cgroup_sock(&socket));
        assert_eq!(got, r0, "{text}");
        let mark = if text.starts_with('*') { 7 } else { 0x1413_1211 };
        assert_eq!(after.field(16), Some(mark), "{text}");
    }
}

#[test]
fn flow_dissectors_leave_what_they_find_in_their_keys() {
    let mut bytes = [0u8; 40];
    (bytes[12], bytes[13], bytes[23]) = (8, 0, 17);
    let text = "r7 = *(u32 *)(r1 + 76); r8 = *(u32 *)(r1 + 80); r9 = *(u64 *)(r1 + 144); r0 = 2; r2 = r7; r2 += 24; if r2 > r8 goto +6
        r2 = *(u8 *)(r7 + 23); *(u8 *)(r9 + 9) = r2; r0 = *(u16 *)(r9 + 0); r2 = *(u8 *)(r9 + 10); r0 <<= 8; r0 |= r2; exit";
    let (r0, after) = run("flow_dissector", text, &|| Context::flow_dissector(&bytes));
    assert_eq!((r0, after.bytes()), (14 << 8 | 8, bytes.to_vec()));
    assert_eq!(after.bytes_before(56)[9], 17);
}

const TARGETS: &str = "map @devices devmap key 4 value 4 entries 4
    map @hashed devmap_hash key 4 value 8 entries 4
    map @cpus cpumap key 4 value 4 entries 2
    map @sockets xskmap key 4 value 4 entries 4
";

/// The kernel, whose maps are as empty, gives the same verdicts; where packets are moved, none is.
#[test]
fn packets_are_sent_where_the_kernel_sends_them() {
    let redirect_map =
        |map: &str, flags: u32| format!("r1 = map[@{map}] ll; r2 = 1; r3 = {flags}; call redirect_map; exit");
    let found = |map: &str| {
        format!(
            "*(u32 *)(r10 - 4) = 1; r1 = map[@{map}] ll; r2 = r10; r2 += -4; call map_lookup_elem; if r0 == 0 goto +2
             r0 = *(u32 *)(r0 + 0); exit; r0 = 77; exit"
        )
    };
    let mut cases: Vec<(String, u64, bool)> = Vec::new();
    for map in ["devices", "hashed", "cpus", "sockets"] {
        for flags in 0..4 {
            cases.push((redirect_map(map, flags), flags.into(), true));
        }
        let to_all = if map == "devices" || map == "hashed" { 4 } else { 0 };
        cases.push((redirect_map(map, 8 | 2), to_all, true));
        cases.push((redirect_map(map, 8 | 16), to_all, true));
        cases.push((redirect_map(map, 16 | 2), if to_all == 4 { 2 } else { 0 }, true));
        cases.push((redirect_map(map, 4), 0, true));
        if map != "cpus" {
            cases.push((found(map), 77, true));
        }
    }
    for (flags, verdict) in [(0, 4), (1, 0)] {
        cases.push((format!("r1 = 1; r2 = {flags}; call redirect; exit"), verdict, true));
    }
    for (flags, verdict) in [(0, 7), (1, 7), (2, 2), (3, 2)] {
        let text = format!("r1 = 1; r2 = {flags}; call redirect; exit");
        let (got, _) = run_with(TARGETS, "classifier", &text, &|| Context::classifier(&[], &[0; 64], 64));
        assert_eq!(got, verdict, "{text}");
        if testkit::kernel::available().is_ok() {
            let text = format!("program \"p\" classifier\n{}\n", text.replace(';', "\n"));
            let object = weir_ebpf::asm::parse(&text).expect("is text");
            let ran = testkit::kernel::run_classifier(&object, &[]).map(|ran| u64::from(ran.r0));
            assert_eq!(ran.map_err(|error| error.to_string()), Ok(verdict), "{text}");
        }
    }
    // Without a driver: EOPNOTSUPP.
    for (helper, by) in [("xdp_adjust_head", -4), ("xdp_adjust_meta", -4), ("xdp_adjust_tail", 1)] {
        let text = format!("r2 = {by}; call {helper}; r0 = -r0; exit");
        cases.push((text.replace("r0 = -r0", "r0 *= -1"), 95, false));
    }
    let route = "*(u64 *)(r10 - 8) = 0; r2 = r10; r2 += -8; r3 = 8; r4 = 0; call fib_lookup; r0 *= -1; exit";
    cases.push((route.to_owned(), 95, false));
    let has_kernel = testkit::kernel::available();
    for (text, r0, is_kernels) in cases {
        let (got, _) = run_with(TARGETS, "xdp", &text, &|| Context::xdp(&[], &[0; 64]));
        assert_eq!(got, r0, "{text}");
        if is_kernels && has_kernel.is_ok() {
            let text = format!("{TARGETS}program \"p\" xdp\n{}\n", text.replace(';', "\n"));
            let object = weir_ebpf::asm::parse(&text).expect("is text");
            let ran = testkit::kernel::load(&object).and_then(|loaded| loaded.repeat(0, 1));
            assert_eq!(ran.map(|ran| ran.r0).map_err(|error| error.to_string()), Ok(r0), "{text}");
        }
    }
    if let Err(reason) = has_kernel {
        testkit::skip::skip("isa::kernel", reason);
    }
}

/// What a socket filter sees: 14 bytes of link header 0xf0, …, then `bytes`.
fn socket(text: &str, bytes: &[u8], r0: u64) -> Context {
    let link: Vec<u8> = (0xf0..0xfe).collect();
    let context = || {
        let mut context = Context::socket(&link, bytes);
        context.set_field("protocol", 0x0008);
        context.set_field("hash", 0x1234_5678);
        context
    };
    let (got, context) = run("socket", text, &context);
    assert_eq!((got, context.bytes()), (r0, bytes.to_vec()), "{text}");
    context
}

#[test]
fn packet_loads_read_big_endian_or_end_the_program() {
    let bytes = [1, 2, 3, 4, 5];
    for (load, r0) in [
        ("*(u8 *)skb[0]", 0x01),
        ("*(u8 *)skb[4]", 0x05),
        ("*(u8 *)skb[5]", 0),
        ("*(u16 *)skb[3]", 0x0405),
        ("*(u16 *)skb[4]", 0),
        ("*(u32 *)skb[1]", 0x0203_0405),
        ("*(u32 *)skb[2]", 0),
        ("*(u32 *)skb[0x7fffffff]", 0),
        // From the network header and from the link header.
        ("*(u32 *)skb[-0x100000]", 0x0102_0304),
        ("*(u16 *)skb[-0xffffd]", 0x0405),
        ("*(u16 *)skb[-0xffffc]", 0),
        ("*(u16 *)skb[-0x200000]", 0xf0f1),
        ("*(u32 *)skb[-0x1ffff4]", 0xfcfd_0102),
        ("*(u8 *)skb[-0x1fffed]", 0),
        ("*(u8 *)skb[-1]", 0),
        ("*(u8 *)skb[-0x200001]", 0),
        ("*(u8 *)skb[-0x80000000]", 0),
    ] {
        socket(&format!("r6 = r1; r0 = {load}; exit"), &bytes, r0);
        // The same with the offset in registers that the optimiser knows, and does not know.
        let offset = load.split(['[', ']']).nth(1).expect("an offset");
        let indexed = |index: &str| load.replace(&format!("[{offset}]"), &format!("[{index}]"));
        socket(&format!("r6 = r1; r7 = {offset}; r0 = {}; exit", indexed("r7")), &bytes, r0);
        for (register, add) in [("r7", "5"), ("r1", "-1"), ("r0", "0x7fffffff")] {
            let unknown = format!("r6 = r1; {register} = *(u32 *)(r6 + 48); w{} += {offset}", &register[1..]);
            socket(&format!("{unknown}; r0 = {}; exit", indexed(register)), &bytes, r0);
            // What is added wraps at 32 bits, and the upper half of a register says nothing.
            let back = format!(
                "{unknown}; r2 = {add}; w{} -= w2; r3 = 7; r3 <<= 32; {register} |= r3",
                &register[1..]
            );
            socket(&format!("{back}; r0 = {}; exit", indexed(&format!("{register} + {add}"))), &bytes, r0);
        }
    }
    // On the way on, r6 to r9 and the stack are as they were; what fails ends the program at once.
    let text = "r6 = r1; r7 = 3; *(u64 *)(r10 - 8) = 4; r0 = *(u8 *)skb[2]; r1 = *(u64 *)(r10 - 8); r0 += r7; r0 += r1; exit";
    socket(text, &bytes, 10);
    socket(text, &[9, 9], 0);
    socket(
        "r6 = r1; *(u8 *)(r6 + 48) = 1; r0 = *(u8 *)skb[9]; *(u8 *)(r6 + 48) = 2; r0 = 3; exit",
        &bytes,
        0,
    );
    socket(
        "r6 = r1; call f; r7 = r0; r0 = *(u8 *)skb[1]; r0 += r7; exit; f: r0 = *(u32 *)(r1 + 0); exit",
        &bytes,
        7,
    );
}

#[test]
fn socket_filters_read_their_fields_and_write_theirs() {
    socket("r0 = *(u32 *)(r1 + 0); exit", &[0; 9], 9);
    socket("r0 = *(u16 *)(r1 + 16); exit", &[], 8);
    socket("r0 = *(u8 *)(r1 + 70); r2 = *(u16 *)(r1 + 68); r0 += r2; exit", &[], 0x34 + 0x5678);
    let text =
        "r2 = 0x1122334455667788 ll; *(u64 *)(r1 + 48) = r2; *(u16 *)(r1 + 58) = r2; *(u8 *)(r1 + 67) = 9
        *(u32 *)(r1 + 60) = -2; r0 = *(u64 *)(r1 + 56); exit";
    let context = socket(text, &[], 0xffff_fffe_7788_0000);
    let cb = [48, 52, 56, 60, 64, 68].map(|offset| context.field(offset));
    let words = [0x5566_7788, 0x1122_3344, 0x7788_0000, 0xffff_fffe, 0x0900_0000, 0x1234_5678];
    assert_eq!(cb, words.map(Some));
}

/// A classifier on `bytes` of a packet that had 100,000 on the wire; what it is run on where it lies gives the same.
fn classifier(text: &str, bytes: &[u8], r0: u64) -> Context {
    const FIELDS: [(&str, u64); 5] =
        [("protocol", 8), ("hash", 0x1234_5678), ("tstamp", 5 << 40 | 1), ("tstamp_type", 2), ("ifindex", 9)];
    let context = || {
        let mut context = Context::classifier(&[], bytes, WIRE);
        FIELDS.iter().for_each(|(name, value)| context.set_field(name, *value));
        context
    };
    let (got, after) = run("classifier", text, &context);
    assert_eq!(got, r0, "{text}");
    let (_, program) = engines::only(&format!("program \"p\" classifier\n{}\n", text.replace(';', "\n")));
    let segment = engines::segment(&[], engines::cpus());
    if let Some(threaded) = Threaded::of(&program, &segment).filter(|_| !program.writes_packet()) {
        let mut bare = Context::classifier(&[], bytes, WIRE);
        let r0 = weir_interp::run(&program, &Environment { segment: &segment }, &mut bare).expect("verified");
        assert_eq!(threaded.classify(bytes, WIRE), r0 as u32, "{text}");
    }
    let mut fields = PacketFields::default();
    FIELDS.iter().for_each(|(name, value)| fields.set(name, *value));
    for abi in abis() {
        let local = LocalProgram::load(&engines::compiled(&program, &abi, Flags::Change), &segment)
            .expect("code fits");
        let mut own = bytes.to_vec();
        assert_eq!(u64::from(local.classify_mut(&mut own, WIRE, &fields)), r0 & 0xffff_ffff, "{text}");
        assert_eq!(own, after.bytes(), "{text}");
        if !local.writes_packet() {
            assert_eq!(u64::from(local.classify(bytes, WIRE, &fields)), r0 & 0xffff_ffff, "{text}");
        }
    }
    after
}

const WIRE: u32 = 100_000;

/// r7 = the packet, r8 = its end.
const ENDS_OF_SK_BUFF: &str = "r7 = *(u32 *)(r1 + 76)\nr8 = *(u32 *)(r1 + 80)\n";

#[test]
fn what_was_captured_ends_before_what_was_on_the_wire() {
    for captured in [0, 1, 13, 14, 15, 33, 60, 65_535, 65_536, 70_000, 99_999] {
        let bytes: Vec<u8> = (0..captured).map(|at| at as u8 | 1).collect();
        let check = |text: &str, r0: u64| drop(classifier(text, &bytes, r0));
        check("r0 = *(u32 *)(r1 + 0); exit", WIRE.into());
        check("r0 = *(u32 *)(r1 + 160); exit", WIRE.into());
        check("r0 = *(u16 *)(r1 + 162); exit", 1);
        check(&format!("{ENDS_OF_SK_BUFF}r8 -= r7; r0 = r8; exit"), captured);
        check(&format!("{ENDS_OF_SK_BUFF}r0 = *(u32 *)(r1 + 140); r0 -= r7; exit"), 0);
        // The last byte, by address, load and copy; and the one after it, which was on the wire alone.
        let last = |at: u64| if at < captured { (at as u8 | 1).into() } else { 0 };
        for at in [captured.saturating_sub(1), captured, 90_000] {
            check(&format!("r6 = r1; r0 = *(u8 *)skb[{at}]; exit"), last(at));
            check(&format!("r6 = r1; r7 = {at}; r0 = *(u8 *)skb[r7]; exit"), last(at));
            check(&format!("r6 = r1; r0 = *(u8 *)skb[{}]; exit", at as i64 - 0x20_0000), last(at));
            let status = if at < captured { 0 } else { -14i64 as u64 };
            check(&format!("r2 = {at}; r3 = r10; r3 += -8; r4 = 1; call skb_load_bytes; exit"), status);
            let by_address = format!(
                "{ENDS_OF_SK_BUFF}r0 = 0; r7 += {at}; r2 = r7; r2 += 1; if r2 > r8 goto +1; r0 = *(u8 *)(r7 + 0); exit"
            );
            check(&by_address, last(at));
        }
        let network = if captured > 14 { 15 } else { 0 };
        check("r6 = r1; r0 = *(u8 *)skb[-0x100000]; exit", network);
        check(
            "r2 = 0; r3 = r10; r3 += -8; r4 = 1; r5 = 1; *(u64 *)(r10 - 8) = 0; call skb_load_bytes_relative; r0 = *(u8 *)(r10 - 8); exit",
            network,
        );
    }
}

#[test]
fn classifiers_read_and_write_their_fields() {
    let packet = &[1, 2, 3][..];
    classifier("r0 = *(u16 *)(r1 + 16); exit", packet, 8);
    classifier("r0 = *(u64 *)(r1 + 152); exit", packet, 5 << 40 | 1);
    classifier("r0 = *(u8 *)(r1 + 180); r2 = *(u32 *)(r1 + 40); r0 += r2; exit", packet, 11);
    classifier(
        "r0 = *(u32 *)(r1 + 4); r2 = *(u64 *)(r1 + 184); r0 += r2; r2 = *(u32 *)(r1 + 176); r0 += r2; exit",
        packet,
        0,
    );
    let text = "r2 = 0x12345; *(u32 *)(r1 + 44) = r2; *(u32 *)(r1 + 72) = 0x54321; *(u32 *)(r1 + 8) = r2; *(u32 *)(r1 + 32) = -1
        *(u64 *)(r1 + 152) = -2; *(u32 *)(r1 + 12) = 7; r0 = *(u32 *)(r1 + 44); r3 = *(u16 *)(r1 + 72); r0 <<= 16; r0 |= r3
        r3 = *(u64 *)(r1 + 152); r0 += r3; exit";
    let after = classifier(text, packet, 0x2345_4321 - 2);
    let fields = [8, 12, 16, 32, 44, 72].map(|offset| after.field(offset));
    assert_eq!(fields, [0x12345, 7, 8, 0xffff_ffff, 0x2345, 0x4321].map(Some));
    // `cb` alone, which a packet comes with zeros in.
    classifier(
        "r0 = *(u64 *)(r1 + 48); r2 = *(u32 *)(r1 + 64); r0 += r2; *(u64 *)(r1 + 56) = 3; exit",
        packet,
        0,
    );
}

#[test]
fn classifiers_write_to_packets_that_are_lent_for_that() {
    let text = format!(
        "{ENDS_OF_SK_BUFF}r0 = 0; r2 = r7; r2 += 3; if r2 > r8 goto +3; r0 = *(u16 *)(r7 + 1); *(u8 *)(r7 + 2) = 9
         *(u8 *)(r7 + 0) = r0; exit"
    );
    assert_eq!(classifier(&text, &[1, 2, 3, 4], 0x302).bytes(), [2, 2, 9, 4]);
    assert_eq!(classifier(&text, &[1, 2], 0).bytes(), [1, 2]);
    let meta = "r7 = *(u32 *)(r1 + 76); r9 = *(u32 *)(r1 + 140); r2 = r9; r2 += 4; r0 = 0; if r2 > r7 goto +1; *(u32 *)(r9 + 0) = 1; exit";
    classifier(meta, &[1, 2], 0);
    let (_, after) = run("classifier", meta, &|| Context::classifier(&[7; 4], &[9], 1));
    assert_eq!((after.bytes(), after.bytes_before(4)), (vec![9], vec![1, 0, 0, 0]));
}

#[test]
#[should_panic(expected = "may write to its packet")]
fn a_packet_that_is_lent_for_reading_is_not_written() {
    loaded(
        "classifier",
        &format!("{ENDS_OF_SK_BUFF}r0 = 0; r2 = r7; r2 += 1; if r2 > r8 goto +1; *(u8 *)(r7 + 0) = 9; exit"),
    )
    .classify(&[1], 1, PacketFields::NONE);
}

#[test]
#[should_panic(expected = "a program of kind xdp is no classifier")]
fn other_kinds_do_not_classify() {
    loaded("xdp", "r0 = 0; exit").classify(&[1], 1, PacketFields::NONE);
}

fn loaded(kind: &str, text: &str) -> LocalProgram {
    let (_, program) = engines::only(&format!("program \"p\" {kind}\n{}\n", text.replace(';', "\n")));
    let segment = engines::segment(&[], engines::cpus());
    LocalProgram::load(&engines::compiled(&program, &engines::shared_abi(true), Flags::Change), &segment)
        .expect("code fits")
}

#[test]
fn metadata_ends_where_the_packet_begins() {
    let read = "r9 = *(u32 *)(r1 + 8); r2 = r9; r2 += 4; r0 = 0; if r2 > r7 goto +2; r0 = *(u32 *)(r9 + 0)
        *(u32 *)(r9 + 0) = 0x55; exit";
    let context = |meta: &'static [u8]| move || Context::xdp(meta, &[9; 3]);
    let text = &format!("{ENDS}{read}");
    assert_eq!(run("xdp", text, &context(&[])).0, 0);
    let (r0, after) = run("xdp", text, &context(&[4, 3, 2, 1]));
    assert_eq!((r0, after.bytes(), after.bytes_before(4)), (0x0102_0304, vec![9; 3], vec![0x55, 0, 0, 0]));
}

#[test]
fn unknown_distances_are_followed() {
    // The sum of the bytes, up to 16.
    let sum = &format!(
        "{ENDS}r0 = 0; r6 = 0; here: r2 = r7; r2 += 1; if r2 > r8 goto +5; r3 = *(u8 *)(r7 + 0); r0 += r3; r7 += 1; r6 += 1
         if r6 != 16 goto here; exit"
    );
    for count in [0u8, 1, 15, 16, 17, 40] {
        let bytes: Vec<u8> = (1..=count).collect();
        xdp(sum, &bytes, (1..=u64::from(count).min(16)).sum(), &bytes);
    }
    // As the length of an IPv4 header says.
    let beyond = &format!(
        "{ENDS}r0 = 1; r2 = r7; r2 += 1; if r2 > r8 goto +9; r6 = *(u8 *)(r7 + 0); r6 &= 15; r6 <<= 2; r7 += r6; r2 = r7
         r2 += 2; r0 = 2; if r2 > r8 goto +1; r0 = *(u16 *)(r7 + 0); exit"
    );
    xdp(beyond, &[], 1, &[]);
    xdp(beyond, &[0x45, 0], 2, &[0x45, 0]);
    xdp(beyond, &[0x41, 0, 0, 0, 0xcd, 0xab], 0xabcd, &[0x41, 0, 0, 0, 0xcd, 0xab]);
    xdp(beyond, &[0x41, 0, 0, 0, 0xcd], 2, &[0x41, 0, 0, 0, 0xcd]);
}

#[test]
fn memory_is_in_r1_and_its_size_in_r2() {
    memory("r0 = r1; exit", &[], 0, &[]);
    memory("r0 = r2; exit", &[0; 5], 5, &[0; 5]);
    memory(
        "r0 = *(u64 *)(r1 + 1); *(u16 *)(r1 + 0) = 0x102; exit",
        &[9; 9],
        0x0909_0909_0909_0909,
        &[2, 1, 9, 9, 9, 9, 9, 9, 9],
    );
    memory(
        "r0 = 3; r0 = atomic_fetch_add((u64 *)(r1 + 0), r0); exit",
        &[7, 0, 0, 0, 0, 0, 0, 0],
        7,
        &[10, 0, 0, 0, 0, 0, 0, 0],
    );
    memory(
        "r6 = r1; call f; r1 = *(u8 *)(r6 + 1); r0 += r1; exit; f: r0 = 0; *(u8 *)(r1 + 1) = r2; exit",
        &[0; 2],
        2,
        &[0, 2],
    );
    let sum = "r0 = 0; r3 = 0; here: r4 = r1; r4 += r3; r5 = *(u8 *)(r4 + 0); r0 += r5; r3 += 1; if r3 < r2 goto here; exit";
    memory(sum, &[1, 2, 3, 200], 206, &[1, 2, 3, 200]);
}

#[test]
fn code_says_which_slots_it_reads() {
    let reads = |kind: &str, text: &str| {
        let (_, program) = engines::only(&format!("program \"p\" {kind}\n{}\n", text.replace(';', "\n")));
        engines::compiled(&program, &engines::shared_abi(true), Flags::default()).context_reads
    };
    assert_eq!(reads("memory 8", "r0 = 0; exit"), 0);
    assert_eq!(reads("memory 8", "r0 = r2; exit"), 0b10);
    assert_eq!(reads("memory 8", "r0 = *(u8 *)(r1 + 0); exit"), 0b01);
    assert_eq!(reads("xdp", "r0 = *(u32 *)(r1 + 16); exit"), 1 << 5);
    assert_eq!(reads("xdp", &format!("{ENDS}r8 -= r7; r0 = r8; exit")), 0b11);
}

#[test]
#[should_panic(expected = "a program of kind xdp given None")]
fn a_program_is_not_run_on_another_context() {
    let (_, program) = engines::only("program \"p\" xdp\nr0 = 0\nexit\n");
    let segment = engines::segment(&[], engines::cpus());
    let executable = engines::compiled(&program, &engines::shared_abi(true), Flags::default());
    let local = LocalProgram::load(&executable, &segment).expect("code fits");
    assert!(
        weir_interp::run(&program, &Environment { segment: &segment }, &mut Context::memory(&[])).is_err()
    );
    local.run(&mut weir_rt::executable::Frame::default());
}
