//! What compilers make of ordinary C that checks its bounds: the programs of `tests/bpf/bounds`.
//!
//! Each is accepted as it is, and refused where its checks are left out (`-DUNCHECKED`): by us and by the kernel. Here the installed
//! clang compiles them, for each version of the machine that it knows; what other versions make of them is stored, as text.
//! `WEIR_BOUNDS=write` makes that anew, of the compilers of [`STORED`] that are installed.

use std::fs;
use std::path::PathBuf;

use testkit::{bpf, paths, skip};
use weir_ebpf::asm;
use weir_ebpf::elf::{self, ObjectFile};
use weir_verifier::{Limits, Maps, Rejection, verify};

/// Compilers of which the objects are stored, and the machines that they are for.
const STORED: [(&str, &[&str]); 2] = [("clang-16", &["v3"]), ("clang-19", &["v4"])];
/// Machines that every compiler knows.
const MACHINES: [&str; 3] = ["v1", "v2", "v3"];
/// Programs of all files.
const PROGRAMS_MIN: usize = 43;
/// Before each stored object: its file, its machine, and whether its checks are there.
const MARK: &str = "# object ";

/// One file, compiled.
struct Compiled {
    file: String,
    machine: String,
    is_checked: bool,
    object: ObjectFile,
}

impl Compiled {
    fn name(&self, program: usize) -> String {
        let checks = if self.is_checked { "" } else { " without its checks" };
        format!("{} of {} ({}){checks}", self.object.object.programs[program].name, self.file, self.machine)
    }

    fn verify(&self, program: usize) -> Result<(), Rejection> {
        let frozen = self.object.frozen();
        let maps = Maps::frozen(&self.object.object.maps, &frozen);
        verify(&self.object.object.programs[program], maps, &Limits::default()).map(|_| ())
    }
}

/// Every file of the folder; none where there is no such compiler for eBPF.
fn compile_all(compiler: &str, machines: &[&str]) -> Result<Vec<Compiled>, String> {
    let folder = paths::target().join("bpf-bounds").join(compiler);
    fs::create_dir_all(&folder).unwrap();
    let mut all = Vec::new();
    for source in bpf::sources("tests/bpf/bounds") {
        let file = source.file_stem().unwrap().to_string_lossy().into_owned();
        for (machine, is_checked) in machines.iter().flat_map(|machine| [(machine, true), (machine, false)]) {
            let object = folder.join(format!("{file}-{machine}-{is_checked}.o"));
            let machine_option = format!("-mcpu={machine}");
            let mut options = vec![machine_option.as_str(), "-Wno-unused-variable"];
            options.extend((!is_checked).then_some("-DUNCHECKED"));
            bpf::compile_with(compiler, &options, &source, &object)?;
            let object =
                elf::read(&fs::read(&object).unwrap()).unwrap_or_else(|error| panic!("{file}: {error}"));
            all.push(Compiled { file: file.clone(), machine: (*machine).to_owned(), is_checked, object });
        }
    }
    Ok(all)
}

fn stored(compiler: &str) -> PathBuf {
    paths::root().join("tests/bpf/bounds").join(format!("{compiler}.txt"))
}

fn read_stored(compiler: &str) -> Vec<Compiled> {
    let text = fs::read_to_string(stored(compiler)).unwrap();
    let object = |part: &str| {
        let (mark, text) = part.split_once('\n').expect("a mark is a line");
        let [file, machine, checks] = mark.split(' ').collect::<Vec<_>>()[..] else { panic!("{mark}") };
        let object = asm::parse_file(text).unwrap_or_else(|error| panic!("{mark}: {error}"));
        Compiled { file: file.into(), machine: machine.into(), is_checked: checks == "checked", object }
    };
    text.split(MARK).skip(1).map(object).collect()
}

fn write_stored(compiler: &str, all: &[Compiled]) {
    // Comments name places of the machine where it was compiled.
    let without_comments = |text: String| {
        let lines = text.lines().filter(|line| !line.starts_with(';'));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let object = |compiled: &Compiled| {
        let checks = if compiled.is_checked { "checked" } else { "unchecked" };
        let text = without_comments(asm::print_file(&compiled.object));
        format!("{MARK}{} {} {checks}\n{text}", compiled.file, compiled.machine)
    };
    let text: String = all.iter().map(object).collect();
    fs::write(stored(compiler), text).unwrap();
}

/// Those with their checks are accepted, those without are not.
fn check(compiler: &str, all: &[Compiled]) {
    let programs = |is_checked: bool| {
        let chosen = all.iter().filter(move |compiled| compiled.is_checked == is_checked);
        chosen.flat_map(|compiled| {
            (0..compiled.object.object.programs.len()).map(move |index| (compiled, index))
        })
    };
    let refused: Vec<String> = programs(true)
        .filter_map(|(compiled, index)| {
            Some(format!("{}: {}", compiled.name(index), compiled.verify(index).err()?))
        })
        .collect();
    assert!(refused.is_empty(), "{compiler}: safe, but refused:\n{}", refused.join("\n"));
    let accepted: Vec<String> = programs(false)
        .filter(|(compiled, index)| compiled.verify(*index).is_ok())
        .map(|(compiled, index)| compiled.name(index))
        .collect();
    assert!(accepted.is_empty(), "{compiler}: accepted, but unsafe:\n{}", accepted.join("\n"));
    let machines =
        all.iter().map(|compiled| &compiled.machine).collect::<std::collections::BTreeSet<_>>().len();
    assert!(programs(true).count() >= PROGRAMS_MIN * machines, "programs are missing");
    eprintln!(
        "{compiler}: {} programs accepted, {} refused",
        programs(true).count(),
        programs(false).count()
    );
}

#[test]
fn what_the_installed_compiler_makes_is_accepted_with_its_checks_alone() {
    match compile_all("clang", &MACHINES) {
        Ok(all) => check("clang", &all),
        Err(missing) => skip::skip("bpf-corpus", missing),
    }
}

#[test]
fn what_other_compilers_make_is_accepted_with_its_checks_alone() {
    for (compiler, machines) in STORED {
        if std::env::var("WEIR_BOUNDS").is_ok_and(|what| what == "write") {
            match compile_all(compiler, machines) {
                Ok(all) => write_stored(compiler, &all),
                Err(missing) => panic!("{missing}"),
            }
        }
        check(compiler, &read_stored(compiler));
    }
}

/// None that the kernel takes is refused here; what is refused here without its checks, it refuses too.
#[test]
fn the_kernel_refuses_what_is_unchecked() {
    if let Err(reason) = testkit::kernel::available() {
        return skip::skip("weir-verifier::bounds", reason);
    }
    let all = match compile_all("clang", &["v2"]) {
        Ok(all) => all,
        Err(missing) => return skip::skip("bpf-corpus", missing),
    };
    let (mut taken, mut alone) = (0, Vec::new());
    for (compiled, index) in all
        .iter()
        .flat_map(|compiled| (0..compiled.object.object.programs.len()).map(move |index| (compiled, index)))
    {
        let theirs = testkit::kernel::load_one(&compiled.object, index);
        match (compiled.is_checked, theirs) {
            (false, Ok(_)) => panic!("{}: the kernel accepts it", compiled.name(index)),
            (true, Err(_)) => alone.push(compiled.name(index)),
            (true, Ok(_)) => taken += 1,
            (false, Err(_)) => {}
        }
    }
    eprintln!("the kernel accepts {taken} too, and refuses {}: {}", alone.len(), alone.join("; "));
    assert!(taken > alone.len(), "the kernel hardly takes any");
}
