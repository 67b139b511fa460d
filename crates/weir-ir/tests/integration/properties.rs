//! Properties of the IR over random modules: the text form round-trips, hostile text is refused without a panic,
//! and optimising changes no effect.

use crate::model;

use model::evaluate::{State, Surroundings, run};
use model::generate::{ADDRESSES, Menu, module};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weir_ir::{Effect, Module, Trigger, check::check, pass::optimise, text};

const MENU: Menu = Menu { string_bytes: 1024, clocks: false, sessions: true };

fn surroundings(args: [u64; 6]) -> Surroundings {
    let strings = ["", "exactly8", "a string that is longer than sixteen bytes"];
    Surroundings {
        args,
        floats: [0, 1 << 63, 0x3ff8 << 48, 0x7ff0 << 48, 0x7ff8 << 48 | 1, 1, u64::MAX, 0x4059 << 48],
        pid: 41,
        tid: 42,
        cpu: 1,
        nsecs: 1000,
        started: 300,
        comm: "weir".into(),
        cookie: 2,
        is_return: args[0] % 2 == 1,
        memory: ADDRESSES.into_iter().zip(strings.map(String::from)).collect(),
    }
}

/// What three runs of the module's function do to empty maps.
fn effects(module: &Module, args: [u64; 6]) -> State {
    let mut state = State::default();
    for _ in 0..3 {
        state.session_cookie = 0;
        run(module, &module.functions[0], &mut surroundings(args), &mut state);
    }
    state
}

fn effects_on_a_path_at_most(module: &Module) -> usize {
    module.functions[0]
        .blocks
        .iter()
        .flat_map(|block| &block.insts)
        .filter(|inst| inst.op.effect() == Effect::Writes)
        .count()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, rng_seed: RngSeed::Fixed(0), ..ProptestConfig::default() })]

    #[test]
    fn generated_modules_are_valid(seed: u64) {
        prop_assert_eq!(check(&module(seed, MENU)), Ok(()));
    }

    #[test]
    fn text_round_trips(seed: u64) {
        let module = module(seed, MENU);
        let printed = text::print(&module);
        prop_assert_eq!(text::parse(&printed), Ok(module), "{}", printed);
    }

    #[test]
    fn optimised_modules_are_valid_and_do_the_same(seed: u64, small in prop::array::uniform6(0u64..4), large: [u64; 6]) {
        let before = module(seed, Menu { clocks: seed % 4 == 0, ..MENU });
        let mut after = before.clone();
        optimise(&mut after);
        prop_assert_eq!(check(&after), Ok(()), "{}", text::print(&after));
        prop_assert!(effects_on_a_path_at_most(&after) <= effects_on_a_path_at_most(&before));
        // A clock that is read in dead code is not read after: modules with clocks are only checked to be valid.
        if seed % 4 != 0 {
            for args in [small, large] {
                prop_assert_eq!(
                    effects(&before, args), effects(&after, args),
                    "before:\n{}\nafter:\n{}", text::print(&before), text::print(&after)
                );
            }
        }
    }

    #[test]
    fn optimising_twice_is_optimising_once(seed: u64) {
        let mut once = module(seed, MENU);
        optimise(&mut once);
        let mut twice = once.clone();
        optimise(&mut twice);
        prop_assert_eq!(once, twice);
    }

    #[test]
    fn mutated_text_never_panics(seed: u64, cuts in prop::collection::vec((any::<prop::sample::Index>(), 0usize..6, any::<char>()), 1..8)) {
        let mut printed: Vec<char> = text::print(&module(seed, MENU)).chars().collect();
        for (at, length, c) in cuts {
            let at = at.index(printed.len());
            let end = (at + length).min(printed.len());
            printed.splice(at..end, [c]);
        }
        let text: String = printed.into_iter().collect();
        if let Ok(mut module) = text::parse(&text) && check(&module).is_ok() {
            optimise(&mut module);
            prop_assert_eq!(check(&module), Ok(()));
            let printed = text::print(&module);
            prop_assert_eq!(text::parse(&printed), Ok(module));
        }
    }
}

#[test]
fn hostile_text_is_refused_with_its_line() {
    let check = |text: &str, line: u32, want: &str| {
        let error = text::parse(text).expect_err(text);
        assert_eq!(error.line, line, "{error} for {text}");
        assert!(error.message.contains(want), "{error} lacks {want}");
    };
    check("fn \"f\" begin {\nb0:\n v4000000000: u64 = pid\nreturn }", 3, "fewer values");
    check("fn \"f\" begin {\nvalue v3: u64\n b0: return }", 3, "nothing gives v0 a type");
    check(&format!("map @x[{}", "(".repeat(100_000)), 1, "deep");
    check("map @x plain str4294967288", 1, "a string of 4294967288 bytes");
    check("map @x lhist 0 10 0", 1, "no buckets");
    check("map @x lhist -9223372036854775808 9223372036854775807 1", 1, "more than 1002");
    check("max_map_keys 99999999999999999999", 1, "64-bit");
    check("max_map_keys 4294967296", 1, "out of range");
    check("\n\naction printf \"x", 3, "closing quote");
    check("\naction clear_map @x", 2, "no map @x");
    check("fn \"f\" begin {\nb1: return }", 2, "b1 where b0 is next");
    check("fn \"f\" begin {\nb0: jump", 2, "ends too early");
    check("fn \"f\" begin {\nb0: v0: u64 = pid\nv0: i64 = pid return }", 3, "two types");
    check("€", 1, "unexpected");
}

/// What calls of two threads in turn do, with these first arguments and results.
fn calls(module: &Module) -> State {
    let (mut state, mut around) = (State::default(), surroundings([0; 6]));
    for (tid, value) in [(1, 5), (2, 0), (1, 0), (1, 7), (2, 9), (2, 0), (1, 1)] {
        (around.tid, around.args) = (tid, [value; 6]);
        state.session_cookie = 0;
        for is_return in [false, true] {
            around.is_return = is_return;
            for function in &module.functions {
                let runs = match function.trigger {
                    Trigger::Uprobe { .. } => !is_return,
                    Trigger::Uretprobe { .. } => is_return,
                    _ => true,
                };
                if runs {
                    run(module, function, &mut around, &mut state);
                }
            }
        }
    }
    state.session_cookie = 0;
    state
}

#[test]
fn a_fused_session_does_what_its_two_clauses_do() {
    let entries = [
        "b0: v0: u64 = nsecs v1: u64 = tid set @s[v1], v0 return",
        "b0: v0: u64 = arg 0 branch v0, b1, b2 b1: v1: u64 = nsecs v2: u64 = tid set @s[v2], v1 jump b2 b2: return",
        "b0: v0: u64 = arg 0 v1: u64 = tid set @s[v1], v0 set @s[v1], v0 aggregate @c return",
    ];
    let exits = [
        "b0: v0: u64 = tid v1: u64 = get @s[v0] branch v1, b1, b2 \
         b1: v2: u64 = nsecs v3: u64 = get @s[v0] v4: u64 = sub v2, v3 aggregate @h, v4 emit 0(v4) \
         delete @s[v0] return b2: return",
        "b0: v0: u64 = tid v1: i64 = has @s[v0] branch v1, b1, b2 \
         b1: v2: u64 = get @s[v0] aggregate @h, v2 delete @s[v0] return b2: return",
        "b0: v0: u64 = tid v1: u64 = get @s[v0] v2: u64 = reg 7 branch v2, b1, b2 \
         b1: delete @s[v0] v3: u64 = get @s[v0] emit 0(v3) emit 0(v1) return \
         b2: aggregate @h, v1 delete @s[v0] return",
    ];
    let mut fused = 0;
    for entry in entries {
        for exit in exits {
            let source = format!(
                "max_map_keys 16\nmap @s[u64] plain u64\nmap @h hist\nmap @c count\naction print_value u64 at 8\n\
                 site \"uprobe:/x:f\" \"f\"\nsite \"uretprobe:/x:f\" \"f\"\n\
                 fn \"u\" uprobe {{ site \"/x\" \"f\" 0 {entry} }}\nfn \"r\" uretprobe {{ site \"/x\" \"f\" 1 {exit} }}"
            );
            let plain = text::parse(&source).unwrap_or_else(|error| panic!("{error}\n{source}"));
            let mut session = plain.clone();
            weir_ir::pass::fuse(&mut session, &|_| true, &|_| true);
            check(&session).unwrap_or_else(|faults| panic!("{faults:?}\n{}", text::print(&session)));
            fused += usize::from(session.functions.len() == 1);
            let (want, got) = (calls(&plain), calls(&session));
            assert!(want == got, "{want:?}\n{got:?}\n{source}\n{}", text::print(&session));
        }
    }
    // A value that may be 0 (the third entry) is only fused with what deletes it in any case.
    assert_eq!(fused, 7);
}
