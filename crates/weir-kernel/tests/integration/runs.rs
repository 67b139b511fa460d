//! What the kernel answers for programs of each kind.

use testkit::{kernel, skip};
use weir_ebpf::{Object, asm};
use weir_kernel::{Input, KernelError, Maps, Ran, load};

fn available() -> bool {
    kernel::available().map_err(|reason| skip::skip("weir-kernel", reason)).is_ok()
}

fn object(kind: &str, text: &str) -> Object {
    let text =
        format!("map @a array key 4 value 8 entries 1\nprogram \"p\" {kind}\n{text}").replace(';', "\n");
    asm::parse(&text).expect("is assembly text")
}

fn run(kind: &str, text: &str, input: Input<'_>) -> Result<Ran, KernelError> {
    let object = object(kind, text);
    let maps = Maps::create(&object.maps)?;
    load(&object.programs[0], &maps)?.run(input, 1)
}

#[test]
fn packets_are_changed_and_results_have_32_bits() {
    if !available() {
        return;
    }
    let text = "r2 = *(u32 *)(r1 + 0); r3 = *(u32 *)(r1 + 4); r4 = r2; r4 += 14; r0 = 0; if r4 > r3 goto +2
        *(u8 *)(r2 + 1) = 7; r0 = -2; exit";
    let ran = run("xdp", text, Input { bytes: &[0; 20], ..Input::default() }).unwrap();
    assert_eq!((ran.r0, ran.bytes[..3].to_vec(), ran.bytes.len()), (0xffff_fffe, vec![0, 7, 0], 20));
    let short = run("xdp", text, Input { bytes: &[0; 13], ..Input::default() }).unwrap_err();
    assert!(
        matches!(short, KernelError::Short { least: 14, bytes: 13, .. }) && !short.is_of_the_machine(),
        "{short}"
    );
}

#[test]
fn packets_may_grow_and_shrink() {
    if !available() {
        return;
    }
    let packet: Vec<u8> = (0..64).collect();
    let run = |text: &str| run("xdp", text, Input { bytes: &packet, ..Input::default() }).unwrap();
    let longer = run("r2 = -14; call xdp_adjust_head; exit");
    assert_eq!((longer.r0, longer.bytes.len(), &longer.bytes[14..]), (0, 78, &packet[..]));
    let shorter = run("r2 = 20; call xdp_adjust_head; exit");
    assert_eq!((shorter.r0, shorter.bytes), (0, packet[20..].to_vec()));
    let longer = run("r2 = 1000; call xdp_adjust_tail; exit");
    assert_eq!((longer.r0, longer.bytes.len(), &longer.bytes[..64]), (0, 1064, &packet[..]));
}

#[test]
fn maps_and_programs_of_any_name_are_taken() {
    if !available() {
        return;
    }
    for name in ["@bytes", "", "a name of more than 15 characters", "\u{e9}\u{1f600}\n", ".rodata.str1.1"] {
        let mut object = object("xdp", "r1 = map[@a] ll; r0 = 0; exit");
        (object.maps[0].name, object.programs[0].name) = (name.into(), name.into());
        let maps = Maps::create(&object.maps).unwrap();
        load(&object.programs[0], &maps).unwrap();
    }
}

#[test]
fn socket_filters_begin_behind_the_link_header() {
    if !available() {
        return;
    }
    let of_link = |protocol: u16, rest: usize, context| {
        let link = [&[2; 12][..], &protocol.to_be_bytes(), &vec![1; rest]].concat();
        run("socket", "r0 = *(u32 *)(r1 + 0); exit", Input { bytes: &link, context })
    };
    for (protocol, least) in [(0x0806, 14), (0x0800, 34), (0x86dd, 54), (60, 14)] {
        for context in [&[][..], &[0; 192]] {
            if least > 14 {
                let short = of_link(protocol, least - 15, context).unwrap_err();
                assert!(matches!(short, KernelError::Short { bytes, .. } if bytes + 1 == least), "{short}");
            }
            assert_eq!(of_link(protocol, least - 14, context).unwrap().r0, least as u64 - 14);
        }
    }
    let bytes: Vec<u8> = (0..20).collect();
    let mut context = [0; 192];
    context[48] = 5;
    let text = "r6 = r1; r2 = *(u32 *)(r1 + 48); r2 += 1; *(u32 *)(r1 + 52) = r2; r0 = *(u16 *)skb[0]; exit";
    let ran = run("socket", text, Input { bytes: &bytes, context: &context }).unwrap();
    assert_eq!((ran.r0, ran.context[52]), (0x0e0f, 6));
}

#[test]
fn classifiers_begin_at_the_link_header() {
    if !available() {
        return;
    }
    let bytes: Vec<u8> = (0..20).collect();
    let run = |text: &str, context| run("classifier", text, Input { bytes: &bytes, context }).unwrap();
    for context in [&[][..], &[0; 192]] {
        let lengths =
            run("r0 = *(u32 *)(r1 + 0); r2 = *(u32 *)(r1 + 160); r0 <<= 8; r0 |= r2; exit", context);
        assert_eq!((lengths.r0, lengths.context.len()), (0x1414, context.len()));
        let first = run("r6 = r1; r0 = *(u16 *)skb[1]; exit", context);
        assert_eq!((first.r0, first.bytes), (0x0102, bytes.clone()));
    }
    let text = "r2 = *(u32 *)(r1 + 76); r3 = *(u32 *)(r1 + 80); r4 = r2; r4 += 14; r0 = 0; if r4 > r3 goto +2
        *(u8 *)(r2 + 1) = 7; r0 = -2; exit";
    let ran = run(text, &[]);
    assert_eq!((ran.r0, ran.bytes[..3].to_vec(), ran.bytes.len()), (0xffff_fffe, vec![0, 7, 2], 20));
}

#[test]
fn memory_is_in_r1_and_its_size_in_r2() {
    if !available() {
        return;
    }
    let text = "*(u8 *)(r1 + 2) = 9; r0 = *(u16 *)(r1 + 0); r2 <<= 40; r0 |= r2; exit";
    let ran = run("memory 3", text, Input { bytes: &[1, 2, 3], ..Input::default() }).unwrap();
    assert_eq!((ran.r0, ran.bytes), (0x300_0000_0201, vec![1, 2, 9]));
    let ran = run("memory 0", "r0 = r1; r0 |= r2; exit", Input::default()).unwrap();
    assert_eq!((ran.r0, ran.bytes), (0, vec![]));
    let refused = run("memory 3", "r0 = *(u8 *)(r1 + 3); exit", Input::default()).unwrap_err();
    assert!(refused.to_string().contains("its verifier says"), "{refused}");
}

#[test]
fn probes_are_for_their_places() {
    let refused = run("probe", "r0 = 0; exit", Input::default());
    if !available() {
        return;
    }
    assert!(matches!(refused, Err(KernelError::Kind { .. })), "{refused:?}");
}

#[test]
fn maps_hold_what_they_are_given_and_runs_add_up() {
    if !available() {
        return;
    }
    let text = "r1 = map[@a][0] ll; r0 = *(u64 *)(r1 + 0); r0 += 1; *(u64 *)(r1 + 0) = r0; exit";
    let object = object("memory 0", text);
    let maps = Maps::create(&object.maps).unwrap();
    maps.update(0, &[0; 4], &40u64.to_le_bytes()).unwrap();
    let ran = load(&object.programs[0], &maps).unwrap().run(Input::default(), 2).unwrap();
    assert_eq!((ran.r0, maps.lookup(0, &[0; 4]).unwrap()), (42, Some(42u64.to_le_bytes().to_vec())));
    assert_eq!((maps.lookup(0, &[1; 4]).unwrap(), maps.keys(0).unwrap()), (None, vec![vec![0; 4]]));
    maps.freeze(0).unwrap();
    let frozen = maps.update(0, &[0; 4], &[0; 8]).unwrap_err();
    assert!(frozen.to_string().contains("BPF_MAP_UPDATE_ELEM") && frozen.is_of_the_machine(), "{frozen}");
}
