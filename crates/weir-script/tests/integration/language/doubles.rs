//! What is done to doubles: IR that has no operation on them, before and after the passes, against Rust's own arithmetic.

use crate::language::compile;
use crate::language::run::{State, run_ir};
use crate::language::soup::Random;

/// Numbers at which a sign, an exponent or a bound changes, as bits.
const EDGES: [u64; 40] = [
    0,
    1 << 63,
    1,
    0x8000_0000_0000_0001,
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x3fdf_ffff_ffff_ffff,
    0x3fe0_0000_0000_0000,
    0x3fef_ffff_ffff_ffff,
    0x3ff0_0000_0000_0000,
    0x3ff0_0000_0000_0001,
    0xbff0_0000_0000_0000,
    0xbff8_0000_0000_0000,
    0x3fff_ffff_ffff_ffff,
    0x4000_0000_0000_0000,
    0x4060_1000_0000_0000,
    0x41df_ffff_ffc0_0000,
    0x41e0_0000_0000_0000,
    0xc1e0_0000_0000_0000,
    0x41ef_ffff_ffe0_0000,
    0x41f0_0000_0000_0000,
    0x432f_ffff_ffff_ffff,
    0x433f_ffff_ffff_ffff,
    0x4340_0000_0000_0001,
    0x43d0_0000_0000_0001,
    0x43df_ffff_ffff_ffff,
    0x43e0_0000_0000_0000,
    0xc3e0_0000_0000_0000,
    0xc3e0_0000_0000_0001,
    0x43ef_ffff_ffff_ffff,
    0x43f0_0000_0000_0000,
    0x43f0_0000_0000_0001,
    0x7fef_ffff_ffff_ffff,
    0x7ff0_0000_0000_0000,
    0xfff0_0000_0000_0000,
    0x7ff0_0000_0000_0001,
    0x7ff8_0000_0000_0000,
    0xfff8_0000_0000_0000,
    0x7fff_ffff_ffff_ffff,
    u64::MAX,
];

/// The same of floats; what stands above them is nothing.
const FLOATS: [u32; 22] = [
    0,
    1 << 31,
    1,
    2,
    3,
    0x8000_0001,
    0x0000_00ff,
    0x0000_0100,
    0x003f_ffff,
    0x0040_0000,
    0x007f_ffff,
    0x807f_ffff,
    0x0080_0000,
    0x3f80_0000,
    0xbfc0_0000,
    0x3eaa_aaab,
    0x7f7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0xffc0_0001,
    0x4b80_0001,
];

fn values(random: &mut Random) -> Vec<u64> {
    let mut word = || (0..8).fold(0u64, |word, _| word << 8 | random.below(256) as u64);
    let mut all = EDGES.to_vec();
    for _ in 0..200 {
        let bits = word();
        // Half of them as large as integers are.
        let exponent = 1000 + bits % 100;
        all.extend([bits, bits & !(0x7ff << 52) | exponent << 52]);
    }
    all
}

/// What the expressions print where `farg0` and `farg1` have these bits.
fn printed(expressions: &[&str], runs: &[[u64; 2]], mut see: impl FnMut([u64; 2], &[i64])) {
    let body: String = expressions.iter().map(|expression| format!("print({expression}); ")).collect();
    let text = format!("uprobe:libc:malloc {{ {body} }}");
    let (module, _) = compile(&text).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
    let mut optimised = module.clone();
    weir_ir::pass::optimise(&mut optimised);
    weir_ir::check::check(&optimised).unwrap_or_else(|faults| panic!("{text}\n{faults:#?}"));
    for run in runs {
        for module in [&module, &optimised] {
            let mut found = State::default();
            run_ir(module, &module.functions[0], &run.map(|bits| bits as i64), &mut found);
            see(*run, &found.printed);
        }
    }
}

#[test]
fn doubles_compare_as_ieee_says() {
    let mut random = Random(0x5eed_0011);
    let values = values(&mut random);
    let mut runs = Vec::new();
    for left in &values {
        runs.extend(EDGES.map(|right| [*left, right]));
        runs.push([*left, *left]);
        runs.push([*left, values[random.below(values.len())]]);
    }
    let operators = [
        "farg0 == farg1",
        "farg0 != farg1",
        "farg0 < farg1",
        "farg0 <= farg1",
        "farg0 > farg1",
        "farg0 >= farg1",
    ];
    printed(&operators, &runs, |bits, found| {
        let [a, b] = bits.map(f64::from_bits);
        let want = [a == b, a != b, a < b, a <= b, a > b, a >= b].map(i64::from);
        assert_eq!(found, want, "{a:?} {b:?}");
    });
}

#[test]
fn doubles_compare_with_constants() {
    let runs: Vec<[u64; 2]> = values(&mut Random(0x5eed_0012)).into_iter().map(|bits| [bits, 0]).collect();
    let expressions = [
        "farg0 < 1.5",
        "1.5 <= farg0",
        "farg0 == 0",
        "farg0 != -0.0",
        "-2 > farg0",
        "farg0 >= 9223372036854775807",
        "farg0 < 1e-9",
        "farg0 == 2.5e3 || farg0 > 1.0e+3",
    ];
    printed(&expressions, &runs, |bits, found| {
        let a = f64::from_bits(bits[0]);
        let large = a == 2500.0 || a > 1000.0;
        let want = [a < 1.5, 1.5 <= a, a == 0.0, a != 0.0, -2.0 > a, a >= 2f64.powi(63), a < 1e-9, large];
        assert_eq!(found, want.map(i64::from), "{a:?}");
    });
}

#[test]
fn casts_cut_the_fraction_off_and_stop_at_the_ends() {
    let runs: Vec<[u64; 2]> = values(&mut Random(0x5eed_0013)).into_iter().map(|bits| [bits, 0]).collect();
    let casts = ["(int64)farg0", "(uint64)farg0", "(int32)farg0", "(uint8)farg0"];
    printed(&casts, &runs, |bits, found| {
        let a = f64::from_bits(bits[0]);
        let wide = a as i64;
        assert_eq!(found, [wide, a as u64 as i64, i64::from(wide as i32), i64::from(wide as u8)], "{a:?}");
    });
}

#[test]
fn floats_widen_to_the_same_number() {
    let mut random = Random(0x5eed_0014);
    let mut runs: Vec<[u64; 2]> = FLOATS.iter().map(|bits| [u64::from(*bits), 0]).collect();
    for _ in 0..2000 {
        let mut byte = || random.below(256) as u64;
        let bits = (0..8).fold(0, |word, _| word << 8 | byte());
        runs.extend([[bits, 0], [bits & 0x807f_ffff, 0]]);
    }
    printed(&["(float)farg0"], &runs, |bits, found| {
        let float = f32::from_bits(bits[0] as u32);
        let (want, found) = (f64::from(float), f64::from_bits(found[0] as u64));
        if float.is_nan() {
            assert!(found.is_nan() && found.is_sign_negative() == float.is_sign_negative(), "{:#x}", bits[0]);
        } else {
            assert_eq!(found.to_bits(), want.to_bits(), "{:#x}", bits[0]);
        }
    });
}

#[test]
fn values_are_chosen_and_kept_whole() {
    let runs = [[1.5f64.to_bits(), 2.5f64.to_bits()], [f64::NAN.to_bits(), 0]];
    let expressions = ["farg0 > 1 ? farg0 : farg1", "farg1", "-1.5"];
    printed(&expressions, &runs, |[a, b], found| {
        let chosen = if f64::from_bits(a) > 1.0 { a } else { b };
        assert_eq!(found, [chosen, b, (-1.5f64).to_bits()].map(|bits| bits as i64));
    });
}
