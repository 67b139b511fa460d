//! What the runtime image may contain: it is put into other people's processes.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, SectionFlags, SectionKind};
use weir_ebpf::helper;
use weir_rt::runtime::{self, Island, RuntimeImage};

fn file() -> ElfFile64<'static> {
    ElfFile64::parse(runtime::IMAGE_FILE).expect("an ELF file")
}

fn instructions() -> Vec<Instruction> {
    let image = runtime::image();
    Decoder::with_ip(64, &image.bytes[..image.text_bytes as usize], 0, DecoderOptions::NONE).iter().collect()
}

/// Every instruction must be free of `is_bad`.
fn check_no(what: &str, is_bad: impl Fn(&Instruction) -> bool) {
    let bad: Vec<String> = instructions()
        .iter()
        .filter(|insn| is_bad(insn))
        .map(|insn| format!("{:#x}: {insn}", insn.ip()))
        .collect();
    assert!(bad.is_empty(), "{what}: {bad:#?}");
}

#[test]
fn has_no_relocation_and_no_import() {
    let file = file();
    assert!(file.dynamic_relocations().is_none_or(|mut relocations| relocations.next().is_none()));
    assert_eq!(file.imports().expect("readable").count(), 0);
    assert!(file.sections().all(|section| section.relocations().next().is_none()));
}

#[test]
fn has_no_writable_data_no_plt_and_no_tls() {
    for section in file().sections() {
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { panic!("an ELF file") };
        let name = section.name().expect("a name");
        let is_loaded = sh_flags.0 & object::elf::SHF_ALLOC.0 != 0;
        let is_writable = sh_flags.0 & object::elf::SHF_WRITE.0 != 0;
        // The linker's own table of a shared object; it is not part of the image's bytes.
        assert!(!(is_loaded && is_writable) || name == ".dynamic", "{name} is writable");
        assert!(!name.starts_with(".plt") && !name.starts_with(".got"), "{name}");
        assert!(!matches!(section.kind(), SectionKind::Tls | SectionKind::UninitializedTls), "{name}");
    }
}

#[test]
fn decodes_completely() {
    check_no("invalid instructions", |insn| insn.code() == Code::INVALID);
    assert!(instructions().len() > 500);
}

/// A thread's `struct rseq`, at an offset from fs that the loader fills in: cpu_id, or rseq_cs.
fn is_of_rseq(insn: &Instruction) -> bool {
    let is_relative = insn.memory_base() != Register::None && insn.memory_base() != Register::RIP;
    insn.segment_prefix() == Register::FS && is_relative && matches!(insn.memory_displacement64(), 4 | 8)
}

#[test]
fn uses_general_registers_alone() {
    check_no("vector, x87, mask or segment registers", |insn| {
        (0..insn.op_count()).filter(|n| insn.op_kind(*n) == OpKind::Register).any(|n| {
            let register = insn.op_register(n);
            !register.is_gpr()
        }) || (insn.segment_prefix() != Register::None
            && insn.mnemonic() != Mnemonic::Nop
            && !is_of_rseq(insn))
    });
}

#[test]
fn has_no_string_instruction_and_leaves_the_direction_flag_alone() {
    check_no("string instructions, rep, std, cld", |insn| {
        insn.is_string_instruction()
            || insn.has_rep_prefix()
            || insn.has_repne_prefix()
            || matches!(insn.mnemonic(), Mnemonic::Std | Mnemonic::Cld | Mnemonic::Popfq)
    });
}

#[test]
fn jumps_and_calls_stay_inside() {
    let text_bytes = u64::from(runtime::image().text_bytes);
    check_no("branches out of the image", |insn| {
        (insn.is_jmp_short_or_near() || insn.is_jcc_short_or_near() || insn.is_call_near())
            && insn.near_branch_target() >= text_bytes
    });
    // The indirect calls are the vDSO's clock, and who takes what is printed, which an island in a target has not.
    let indirect = instructions()
        .iter()
        .filter(|insn| insn.is_call_near_indirect() || insn.is_jmp_near_indirect())
        .count();
    assert_eq!(indirect, 2);
}

#[test]
fn every_helper_but_the_inlined_ones_has_a_function() {
    for proto in helper::HELPERS {
        let offset = runtime::image().helper(proto.id);
        let is_inlined =
            [helper::TAIL_CALL, helper::GET_ATTACH_COOKIE, helper::LOOP, helper::FOR_EACH_MAP_ELEM]
                .contains(&proto.id);
        assert_eq!(offset.is_some(), !is_inlined, "{}", proto.name);
        assert_eq!(runtime::helper_address(proto.id).is_some(), offset.is_some(), "{}", proto.name);
        assert!(offset.is_none_or(|offset| offset < runtime::image().text_bytes));
    }
}

#[test]
fn the_island_is_last_and_empty() {
    let image = runtime::image();
    assert!(
        image.island_offset >= image.text_bytes && u64::from(image.island_offset) % RuntimeImage::ALIGN == 0
    );
    assert_eq!(image.bytes[image.island_offset as usize..], [0; Island::BYTES as usize]);
    let island = Island {
        segment: 1,
        clock_gettime: 2,
        pid: 3,
        flags: 4,
        pid_namespace: (5, 6),
        print: 7,
        tick_ns: 8,
        rseq: -10,
        filter: 9,
    };
    let words = [1u64, 2, 3 | 4 << 32, 5, 6, 7, 8 | 0xffff_fff6 << 32, 9];
    assert_eq!(
        island.to_bytes().to_vec(),
        words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>()
    );
}

/// Whether an instruction that `is_wanted` can be reached from `entry`.
fn reaches(entry: u64, is_wanted: impl Fn(&Instruction) -> bool) -> bool {
    let at: std::collections::HashMap<u64, Instruction> =
        instructions().into_iter().map(|insn| (insn.ip(), insn)).collect();
    let (mut open, mut seen) = (vec![entry], std::collections::HashSet::new());
    while let Some(ip) = open.pop() {
        if !seen.insert(ip) {
            continue;
        }
        let insn = at[&ip];
        if is_wanted(&insn) {
            return true;
        }
        let is_branch = insn.is_jmp_short_or_near() || insn.is_jcc_short_or_near() || insn.is_call_near();
        open.extend(is_branch.then(|| insn.near_branch_target()));
        let ends = insn.mnemonic() == Mnemonic::Ret || insn.mnemonic() == Mnemonic::Jmp;
        open.extend((!ends).then(|| insn.next_ip()));
    }
    false
}

#[test]
fn helpers_that_call_the_kernel_are_known() {
    // Clocks and CPUs are asked of the kernel only where the vDSO and the CPU do not tell.
    let seldom = [
        helper::KTIME_GET_NS,
        helper::KTIME_GET_BOOT_NS,
        helper::KTIME_GET_COARSE_NS,
        helper::KTIME_GET_TAI_NS,
        helper::JIFFIES64,
        helper::GET_PRANDOM_U32,
        helper::GET_SMP_PROCESSOR_ID,
        helper::GET_NUMA_NODE_ID,
        helper::PERF_EVENT_OUTPUT,
    ];
    let image = runtime::image();
    for id in 0..300 {
        let Some(offset) = image.helper(id) else { continue };
        let expected = weir_rt::executable::calls_kernel(id) || seldom.contains(&id);
        let reaches_kernel = reaches(offset.into(), |insn| insn.mnemonic() == Mnemonic::Syscall);
        assert_eq!(reaches_kernel, expected, "helper {id} reaches the kernel");
    }
}

#[test]
fn helpers_that_read_the_time_stamp_counter_are_known() {
    // The vDSO's clock may; it and who takes what is printed are what is called indirectly.
    let reads = |insn: &Instruction| insn.mnemonic() == Mnemonic::Rdtsc || insn.is_call_near_indirect();
    // Only where there is no segment; and those that print call nothing else, in a target not even that.
    let seldom = [helper::GET_PRANDOM_U32, helper::TRACE_PRINTK, helper::TRACE_VPRINTK];
    let image = runtime::image();
    for id in 0..300 {
        let Some(offset) = image.helper(id) else { continue };
        let expected = weir_rt::executable::reads_ticks(id) || seldom.contains(&id);
        assert_eq!(reaches(offset.into(), reads), expected, "helper {id} reads the counter");
    }
}
