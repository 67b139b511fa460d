//! The corpus of scripts, `tests/corpus`: what each prints, run by the interpreter and as machine code, or what is wrong with it.
//!
//! A file has cases, one after the other:
//!
//! ```text
//! == name of the case
//! BEGIN { print(1) }
//! -- prints
//! 1
//! ```
//!
//! A case that is wrong has `-- error` instead, and a line for each fault: where it begins, and what is said. `-- parameters` and a line
//! with words, and names as `--name=value`, may stand before, and `-- unsafe`, with which a script may act on the system, and `-- truths`, with which comparisons are
//! true or false. What is printed at the end (the maps) is part of what is printed. `WEIR_BLESS=1` writes what is found.
//!
//! The same for the examples of the docs: a block of `bpftrace`, and what it prints in the block of `text` after it. One that has none is of a process, and
//! compiled alone.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use weir_ebpf::Program;
use weir_ir::{MissingProbes, Trigger};
use weir_report::{Format, Report};
use weir_rt::executable::Frame;
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_source::{Diagnostic, SourceFile};

use crate::controller::{Caller, Controller, InWeir};
use crate::failure::Failure;
use crate::notice::Notices;
use crate::output::Output;
use crate::plan::Plan;
use crate::stages;
use weir_world::binaries;

#[derive(Debug, Default)]
struct Case {
    name: String,
    script: String,
    parameters: Vec<String>,
    allows_unsafe: bool,
    has_truths: bool,
    /// `prints` or `error`.
    kind: String,
    expected: String,
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn cases(text: &str) -> Vec<Case> {
    let mut cases = Vec::new();
    for part in text.split("\n== ").map(|part| part.trim_start_matches("== ")) {
        let (name, rest) = part.split_once('\n').unwrap_or((part, ""));
        let mut case = Case {
            name: name.to_owned(),
            script: String::new(),
            parameters: Vec::new(),
            allows_unsafe: false,
            has_truths: false,
            kind: String::new(),
            expected: String::new(),
        };
        let mut at = "script";
        for line in rest.lines() {
            match line.strip_prefix("-- ") {
                Some(heading @ ("prints" | "error" | "parameters")) => {
                    at = heading;
                    if heading != "parameters" {
                        case.kind = heading.to_owned();
                    }
                }
                Some("unsafe") => case.allows_unsafe = true,
                Some("truths") => case.has_truths = true,
                _ if at == "script" => case.script += &format!("{line}\n"),
                _ if at == "parameters" => case.parameters.extend(line.split(' ').map(str::to_owned)),
                _ => case.expected += &format!("{line}\n"),
            }
        }
        cases.push(case);
    }
    cases
}

fn text(cases: &[Case]) -> String {
    let one = |case: &Case| {
        let parameters = match case.parameters.is_empty() {
            true => String::new(),
            false => format!("-- parameters\n{}\n", case.parameters.join(" ")),
        };
        let allowed = if case.allows_unsafe { "-- unsafe\n" } else { "" };
        let truths = if case.has_truths { "-- truths\n" } else { "" };
        format!(
            "== {}\n{}{allowed}{truths}{parameters}-- {}\n{}",
            case.name, case.script, case.kind, case.expected
        )
    };
    cases.iter().map(one).collect()
}

/// A writer that several may read.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Programs as machine code of this process.
struct Compiled(Vec<LocalProgram>);

impl Caller for Compiled {
    fn call(&self, program: usize) -> Result<(), Failure> {
        self.0[program].run(&mut Frame::default());
        Ok(())
    }
}

/// What a sound script prints, by one engine.
fn printed(plan: Rc<Plan>, as_machine_code: bool) -> String {
    let layout = SegmentLayout::plan(&plan.compiled.object.maps, 2).expect("the maps fit a segment");
    let segment = Segment::create_local(layout, &Identity::default()).expect("a memfd");
    let out = Shared::default();
    let report: Report<Box<dyn std::io::Write>> = Report::new(Box::new(out.clone()), Format::Text);
    // What the script reports beside its output stands in between.
    let beside = out.clone();
    let said = Notices::to(move |notice| {
        // SANITY: a vector takes everything.
        writeln!(beside.clone(), "{notice}").expect("a Vec");
    });
    let mut output = Output::new(plan.clone(), report, said);
    let caller: Box<dyn Caller> = match as_machine_code {
        true => {
            let abi = local::site(segment.layout());
            let executables =
                plan.verified.iter().map(|program| weir_jit::compile(program, &abi).expect("it compiles"));
            let load = |executable| LocalProgram::load(&executable, &segment).expect("it loads");
            Box::new(Compiled(executables.map(load).collect()))
        }
        false => Box::new(InWeir { verified: &plan.verified, segment: &segment }),
    };
    let controller = Controller::new(&plan.compiled);
    let drain = |output: &mut Output| {
        let mut ring = segment.ring(plan.compiled.ring as usize);
        while let Some(record) = ring.next() {
            output.record(&segment, &record.bytes).expect("a record is printed");
        }
    };
    controller.begin(&*caller).expect("BEGIN runs");
    drain(&mut output);
    output.ends();
    controller.end(&*caller).expect("END runs");
    drain(&mut output);
    output.print_all(&segment, &|_| None).expect("maps are printed");
    let losses = output.losses(&segment).into_iter().filter(|(count, _)| *count > 0);
    let losses: String = losses.map(|(count, text)| format!("{count} {text}\n")).collect();
    let printed = String::from_utf8_lossy(&out.0.lock().unwrap()).into_owned() + &losses;
    // The break before the maps is one empty line here.
    let printed = printed.trim_end_matches('\n').replace("\n\n\n", "\n\n");
    if printed.is_empty() { printed } else { printed.trim_start_matches('\n').to_owned() + "\n" }
}

/// What is said of a wrong script: where each fault begins, and the message.
fn faults(source: &SourceFile, diagnostics: &[Diagnostic]) -> String {
    let one = |diagnostic: &Diagnostic| {
        let before = &source.text[..diagnostic.span.start as usize];
        let line = 1 + before.matches('\n').count();
        let column = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
        format!("{line}:{column}: {}\n", diagnostic.message)
    };
    diagnostics.iter().map(one).collect()
}

/// `prints` or `error`, and what.
fn found(case: &Case) -> (&'static str, String) {
    let source = SourceFile { name: "case".into(), text: case.script.clone() };
    let world = binaries(None).expect("this machine's files");
    let (named, params): (Vec<String>, _) =
        case.parameters.iter().cloned().partition(|word| word.starts_with("--"));
    let named = named.iter().map(|word| match word[2..].split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (word[2..].to_owned(), None),
    });
    let options = weir_script::Options {
        params,
        named: named.collect(),
        allows_unsafe: case.allows_unsafe,
        has_truths: case.has_truths,
        ..weir_script::Options::default()
    };
    let module = match stages::front(&source, &options, &world, &mut |_| ()) {
        Ok(module) => module,
        Err(Failure::Script(diagnostics)) => return ("error", faults(&source, &diagnostics)),
        Err(other) => panic!("{}: {other:?}", case.name),
    };
    let options = weir_codegen::Options { counts_hits: false, ..weir_codegen::Options::default() };
    let (compiled, verified) =
        match stages::back(&module, &options, None, &weir_codegen::Part::WHOLE, &source) {
            Ok(both) => both,
            Err(Failure::Script(diagnostics)) => return ("error", faults(&source, &diagnostics)),
            Err(Failure::Refused(error)) => return ("error", format!("{error}\n")),
            Err(other) => panic!("{}: {other:?}\n{}", case.name, case.script),
        };
    let has_probe = compiled.triggers.iter().any(Trigger::is_probe);
    assert!(!has_probe, "{}: a case runs in weir itself", case.name);
    let plan = Rc::new(Plan::new(compiled, verified, Vec::new(), MissingProbes::Error));
    let interpreted = printed(plan.clone(), false);
    let as_machine_code = printed(plan.clone(), true);
    let programs: Vec<&Program> = plan.compiled.object.programs.iter().collect();
    assert_eq!(interpreted, as_machine_code, "interpreter and machine code: {}\n{programs:?}", case.script);
    ("prints", interpreted)
}

/// A page of the docs: text, and blocks with their language.
fn blocks(page: &str) -> Vec<(Option<&str>, &str)> {
    let mut blocks = Vec::new();
    let mut rest = page;
    while let Some(start) = rest.find("```") {
        let (before, block) = rest.split_at(start);
        let (language, body) = block[3..].split_once('\n').unwrap_or((&block[3..], ""));
        let (body, after) = body.split_once("```\n").unwrap_or((body, ""));
        blocks.extend([(None, before), (Some(language), body)]);
        rest = after;
    }
    blocks.push((None, rest));
    blocks
}

#[test]
fn examples_of_the_docs_print_what_they_say() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let (mut run, mut compiled, mut wrong) = (0, 0, String::new());
    for file in fs::read_dir(docs).unwrap().map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let page = fs::read_to_string(&file).unwrap();
        let (mut written, mut prints) = (String::new(), None);
        let blocks = blocks(&page);
        for (index, (language, body)) in blocks.iter().enumerate() {
            let Some(language) = language else {
                written += body;
                continue;
            };
            let mut body = (*body).to_owned();
            let is_followed = matches!(blocks.get(index + 2), Some((Some("text"), _)));
            match *language {
                "bpftrace" if is_followed => {
                    let case =
                        Case { name: file.display().to_string(), script: body.clone(), ..Case::default() };
                    let (kind, printed) = found(&case);
                    if kind == "error" {
                        wrong += &format!("{}: {body}{printed}", file.display());
                    }
                    prints = Some(printed);
                    run += 1;
                }
                "bpftrace" => {
                    let source = SourceFile { name: "example".into(), text: body.clone() };
                    let options = weir_script::Options {
                        kernel: weir_script::Kernel::Checked,
                        ..weir_script::Options::default()
                    };
                    let world = binaries(None).expect("this machine's files");
                    if let Err(failure) = stages::front(&source, &options, &world, &mut |_| ()) {
                        wrong += &format!("{}: {body}{failure:?}\n", file.display());
                    }
                    compiled += 1;
                }
                "text" => {
                    if let Some(printed) = prints.take().filter(|printed| *printed != body) {
                        wrong += &format!("{}: expected:\n{body}found:\n{printed}\n", file.display());
                        body = printed;
                    }
                }
                _ => {}
            }
            written += &format!("```{language}\n{body}```\n");
        }
        if std::env::var_os("WEIR_BLESS").is_some() && written != page {
            fs::write(&file, written).unwrap();
        }
    }
    assert!(
        run >= 12 && compiled >= 10,
        "{run} examples were run and {compiled} compiled: pages are missing"
    );
    assert!(wrong.is_empty() || std::env::var_os("WEIR_BLESS").is_some(), "{wrong}");
}

#[test]
fn each_script_prints_what_it_should() {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let (mut count, mut errors, mut wrong) = (0, 0, String::new());
    for file in files {
        let before = fs::read_to_string(&file).unwrap();
        let mut all = cases(&before);
        for case in &mut all {
            let (kind, found) = found(case);
            count += 1;
            errors += usize::from(kind == "error");
            if (case.kind.as_str(), &case.expected) != (kind, &found) {
                wrong += &format!(
                    "{}: {}\n{}expected ({}):\n{}found ({kind}):\n{found}\n",
                    file.display(),
                    case.name,
                    case.script,
                    case.kind,
                    case.expected
                );
            }
            (case.kind, case.expected) = (kind.to_owned(), found);
        }
        if std::env::var_os("WEIR_BLESS").is_some() {
            fs::write(&file, text(&all)).unwrap();
        }
    }
    assert!(count >= 500 && errors >= 190, "{count} scripts, of which {errors} are wrong: files are missing");
    assert!(wrong.is_empty() || std::env::var_os("WEIR_BLESS").is_some(), "{wrong}");
}
