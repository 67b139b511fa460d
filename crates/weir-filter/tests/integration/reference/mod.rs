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

use std::time::Duration;

use testkit::random::{Cases, Daily};
use weir_filter::{Dialect, ast, compile, parse};
use weir_interp::Environment;
use weir_rt::executable::Frame;
use weir_rt::local::{self, LocalProgram};
use weir_rt::segment::{Identity, Segment, SegmentLayout};
use weir_verifier::{Limits, VerifiedProgram};

use crate::reference::evaluate::accepts;
use crate::reference::event::{Datum, raise, schema};
use crate::reference::generate::{Random, expression, values};

/// Expressions of a run of the suite, in each dialect. `WEIR_FILTER=SEED:COUNT` is for `cargo xtask soak filter`.
const DAILY: Daily = Daily { seed: 1, at_least: 200, at_most: 2_000, budget: Duration::from_secs(4) };
/// Events that each is tried on.
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

/// What the random expressions of a dialect met.
struct Compared {
    name: &'static str,
    dialect: Dialect,
    random: Random,
    expressions: usize,
    refused: usize,
    kept: usize,
    left: usize,
}

impl Compared {
    fn new(name: &'static str, dialect: Dialect, seed: u64) -> Compared {
        let random = Random(testkit::random::state(seed));
        Compared { name, dialect, random, expressions: 0, refused: 0, kept: 0, left: 0 }
    }

    /// Compares the next expression; false if it is refused, since nothing fits it.
    fn compare(&mut self) -> bool {
        let tree = expression(&mut self.random, self.dialect);
        let text = tree.to_string();
        let events: Vec<Vec<Datum>> = (0..EVENTS).map(|_| values(&mut self.random)).collect();
        let answers = match run(&text, self.dialect, &events) {
            Ok(answers) => answers,
            Err(message) => {
                // Every other one is sound by its making.
                assert!(message.contains("never be true"), "{text}: {message}");
                self.refused += 1;
                return false;
            }
        };
        for (event, answer) in events.iter().zip(answers) {
            assert_eq!(answer, accepts(&tree, self.dialect, event), "{text} of {event:?}");
            *if answer { &mut self.kept } else { &mut self.left } += 1;
        }
        self.expressions += 1;
        let again = ast::text(&parse(&text).unwrap());
        assert_eq!(ast::text(&parse(&again).unwrap()), again, "{text}");
        true
    }
}

#[test]
fn both_dialects_decide_as_the_reference_does() {
    let cases = Cases::of("WEIR_FILTER", DAILY);
    let seed = cases.seed();
    let mut dialects =
        [Compared::new("lttng", Dialect::Lttng, seed), Compared::new("weir", Dialect::Weir, seed)];
    for _ in cases {
        for dialect in &mut dialects {
            while !dialect.compare() {}
        }
    }
    for Compared { name, expressions, refused, kept, left, .. } in dialects {
        println!(
            "counts: {name}={expressions} {name}_refused={refused} {name}_kept={kept} {name}_left={left}"
        );
        let least = expressions * EVENTS / 20;
        assert!(
            kept > least && left > least,
            "{name}, of {expressions}: {kept} kept, {left} left: one-sided"
        );
    }
}
