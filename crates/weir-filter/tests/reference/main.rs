//! Filters as they run against a slow evaluator written from the grammar (LTTng's: the rules of its bytecode interpreter; weir's:
//! docs/filter.md), over random expressions and values.
//!
//! An expression is made as a tree of this file's own, printed, and given to both: the text through parser, check, IR, passes,
//! eBPF, the verifier, and both engines; the tree to [`evaluate`]. Nothing of the compiler is used by the evaluator.

mod evaluate;
mod event;
mod expression;
mod generate;

mod corners;
mod hostile;
mod state;

use weir_filter::{Dialect, ast, compile, parse};
use weir_interp::Environment;
use weir_rt::executable::Frame;
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram};

use crate::evaluate::accepts;
use crate::event::{Datum, raise, schema};
use crate::generate::{Random, expression, values};

/// Expressions of a run of the suite, in each dialect, and events that each is tried on: 10⁵ cases. `WEIR_FILTER=SEED` tries others.
const EXPRESSIONS: usize = 2_000;
const EVENTS: usize = 50;

/// A filter that is ready to run.
struct Ready {
    verified: VerifiedProgram,
    segment: Segment,
    native: LocalProgram,
}

impl Ready {
    fn of(text: &str, dialect: Dialect) -> Result<Ready, String> {
        let (mut module, _) =
            compile(text, dialect, &schema()).map_err(|faults| faults[0].message.clone())?;
        weir_ir::check::check(&module).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        weir_ir::pass::optimise(&mut module);
        let options = weir_codegen::Options {
            ring_bytes: 4096,
            counts_hits: false,
            ..weir_codegen::Options::default()
        };
        let file = weir_codegen::compile_with(&module, &options)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .into_file();
        let verified = weir_verifier::verify(&file.object.programs[0], &file.object.maps, &limits());
        let verified = verified.unwrap_or_else(|rejection| panic!("{text}: {rejection}"));
        let layout = SegmentLayout::plan(&file.object.maps, local::possible_cpus()).unwrap();
        let segment = Segment::create_local(layout, &Identity::default()).unwrap();
        segment.fill(&file.maps).unwrap();
        let executable = weir_jit::compile(&verified, &local::site(segment.layout())).unwrap();
        let native = LocalProgram::load(&executable, &segment).unwrap();
        Ok(Ready { verified, segment, native })
    }

    fn interpreted(&self, frame: &mut Frame) -> bool {
        let environment = Environment { segment: &self.segment };
        weir_interp::run(&self.verified, &environment, frame).unwrap() != 0
    }

    fn compiled(&self, frame: &mut Frame) -> bool {
        self.native.run(frame) != 0
    }
}

/// The program declares `t` to be there.
fn limits() -> Limits {
    Limits { text_slots: schema().text_slots(), ..Limits::default() }
}

/// What both engines say of each event; they agree.
fn run(text: &str, dialect: Dialect, events: &[Vec<Datum>]) -> Result<Vec<bool>, String> {
    let ready = Ready::of(text, dialect)?;
    let answer = |event: &Vec<Datum>| {
        let mut raised = raise(event);
        let interpreted = ready.interpreted(&mut raised.frame);
        let compiled = ready.compiled(&mut raised.frame);
        assert_eq!(interpreted, compiled, "{text}: engines differ on {event:?}");
        compiled
    };
    Ok(events.iter().map(answer).collect())
}

/// What a run over random expressions met.
#[derive(Debug, Default)]
struct Counts {
    expressions: usize,
    refused: usize,
    kept: usize,
    left: usize,
}

fn against_the_reference(dialect: Dialect, seed: u64) -> Counts {
    let mut random = Random(testkit::random::state(seed));
    let mut counts = Counts::default();
    while counts.expressions < EXPRESSIONS {
        let tree = expression(&mut random, dialect);
        let text = tree.to_string();
        let events: Vec<Vec<Datum>> = (0..EVENTS).map(|_| values(&mut random)).collect();
        let answers = match run(&text, dialect, &events) {
            Ok(answers) => answers,
            Err(message) => {
                // Every other one is sound by its making.
                assert!(message.contains("never be true"), "{text}: {message}");
                counts.refused += 1;
                continue;
            }
        };
        for (event, answer) in events.iter().zip(answers) {
            assert_eq!(answer, accepts(&tree, dialect, event), "seed {seed}: {text} of {event:?}");
            *if answer { &mut counts.kept } else { &mut counts.left } += 1;
        }
        counts.expressions += 1;
        let again = ast::text(&parse(&text).unwrap());
        assert_eq!(ast::text(&parse(&again).unwrap()), again, "{text}");
    }
    let least = EXPRESSIONS * EVENTS / 20;
    assert!(counts.kept > least && counts.left > least, "{counts:?}: one-sided");
    counts
}

#[test]
fn both_dialects_decide_as_the_reference_does() {
    let asked = std::env::var("WEIR_FILTER").ok();
    let seed: u64 = asked.map_or(1, |text| text.parse().expect("WEIR_FILTER is a seed"));
    let [lttng, weir] = std::thread::scope(|scope| {
        let run = |dialect| scope.spawn(move || against_the_reference(dialect, seed));
        [Dialect::Lttng, Dialect::Weir].map(run).map(|thread| thread.join().unwrap())
    });
    for (name, Counts { expressions, refused, kept, left }) in [("lttng", lttng), ("weir", weir)] {
        println!(
            "counts: {name}={expressions} {name}_refused={refused} {name}_kept={kept} {name}_left={left}"
        );
    }
}
