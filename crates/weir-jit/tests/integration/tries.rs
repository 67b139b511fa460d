//! LPM tries of many prefixes: look-ups from machine code and in the kernel find the same, and what one costs on each
//! side.
//!
//! Prefixes are as long as those of the Internet's routing tables are; half of the addresses lie in one of them, the
//! others anywhere. The time of a look-up is that of a run less that of the same program without the call, each the
//! least of many short rounds that take turns. It is printed
//! (`WEIR_MEASURE=1 cargo test -p weir-jit --test integration tries:: -- --nocapture`),
//! in many rounds where `WEIR_MEASURE` is set, and not judged: how fast is said in docs/decisions, and tests run on machines
//! that do other things as well.

use crate::engines;

use std::time::Instant;

use engines::{Random, compiled, segment, shared_abi, verified};
use testkit::{kernel, measure, skip};
use weir_ebpf::{Object, asm};
use weir_jit::Flags;
use weir_rt::executable::Frame;
use weir_rt::local::LocalProgram;

/// Looks one address after the other up, and adds the values up that it finds.
const LOOK_UP: &str = "r2 = r10\nr2 += -8\nr1 = map[@trie] ll\ncall map_lookup_elem\nif r0 == 0 goto out
    r1 = *(u64 *)(r0 + 0)\nr2 = *(u64 *)(r6 + 8)\nr2 += r1\n*(u64 *)(r6 + 8) = r2\n";

const ADDRESSES: usize = 65_536;

fn object(entries: u32, body: &str) -> Object {
    let text = format!(
        "map @state array key 4 value 16 entries 1\nmap @addresses array key 4 value {} entries 1
        map @trie lpm_trie key 8 value 8 entries {entries} flags 1\nprogram \"p\" probe
        r6 = map[@state][0] ll\nr7 = *(u64 *)(r6 + 0)\nr8 = r7\nr7 += 1\n*(u64 *)(r6 + 0) = r7
        r8 &= 65535\nr8 <<= 2\nr9 = map[@addresses][0] ll\nr9 += r8\nr1 = *(u32 *)(r9 + 0)
        *(u32 *)(r10 - 4) = r1\n*(u32 *)(r10 - 8) = 32\n{body}out: r0 = 0\nexit\n",
        4 * ADDRESSES
    );
    asm::parse(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// A length as often as in a table of routes: most have 24 bits.
fn length(random: &mut Random) -> u32 {
    match random.below(100) {
        0..58 => 24,
        58..70 => 22 + random.below(2) as u32,
        70..80 => 23,
        80..96 => 16 + random.below(6) as u32,
        _ => 8 + random.below(8) as u32,
    }
}

/// A prefix and its value.
type Route = ([u8; 8], [u8; 8]);

/// Different prefixes, their values, and the addresses to look up.
fn table(entries: u32) -> (Vec<Route>, Vec<u8>) {
    let mut random = Random(u64::from(entries));
    let mut seen = std::collections::BTreeSet::new();
    let mut prefixes = Vec::new();
    while prefixes.len() < entries as usize {
        let length = length(&mut random);
        let address = (random.next() as u32) & (u32::MAX << (32 - length));
        if seen.insert((length, address)) {
            let mut key = [0; 8];
            key[..4].copy_from_slice(&length.to_le_bytes());
            key[4..].copy_from_slice(&address.to_be_bytes());
            prefixes.push((key, random.below(1 << 20).to_le_bytes()));
        }
    }
    let mut addresses = Vec::with_capacity(4 * ADDRESSES);
    for n in 0..ADDRESSES {
        let anywhere = (random.next() as u32).to_be_bytes();
        let (prefix, _) = random.pick(&prefixes);
        addresses.extend(if n % 2 == 0 { anywhere } else { [prefix[4], prefix[5], prefix[6], anywhere[3]] });
    }
    (prefixes, addresses)
}

/// Rounds are short, so that some of them are not interrupted by whatever else runs.
const ROUNDS: usize = 60;
const RUNS: u32 = ADDRESSES as u32 / 8;

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// One side: the programs with and without the look-up on maps of their own, filled.
trait Side {
    /// Nanoseconds of one of [`RUNS`] runs.
    fn time(&mut self, with_look_up: bool) -> f64;
    /// The state of the program with the look-up.
    fn state(&mut self) -> Vec<u8>;
}

struct Weir {
    segments: Vec<weir_rt::segment::Segment>,
    programs: Vec<LocalProgram>,
}

struct Kernel {
    loaded: Vec<kernel::Loaded>,
}

impl Weir {
    fn new(objects: &[Object], prefixes: &[Route], addresses: &[u8]) -> Weir {
        let mut side = Weir { segments: Vec::new(), programs: Vec::new() };
        for object in objects {
            let segment = segment(&object.maps, engines::cpus());
            segment.map(1).update(&[0; 4], addresses, 0).expect("an array");
            for (key, value) in prefixes {
                segment.map(2).update(key, value, 1).expect("room");
            }
            let program = verified(&object.programs[0], &object.maps);
            let executable = compiled(&program, &shared_abi(engines::has_bmi2()), Flags::default());
            side.programs.push(LocalProgram::load(&executable, &segment).expect("code fits"));
            side.segments.push(segment);
        }
        side
    }
}

impl Side for Weir {
    fn time(&mut self, with_look_up: bool) -> f64 {
        let (program, mut frame) = (&self.programs[usize::from(with_look_up)], Frame::default());
        let start = Instant::now();
        for _ in 0..RUNS {
            program.run(&mut frame);
        }
        start.elapsed().as_nanos() as f64 / f64::from(RUNS)
    }

    fn state(&mut self) -> Vec<u8> {
        self.segments[1].map(0).lookup(&[0; 4]).expect("an array")
    }
}

impl Kernel {
    fn new(objects: &[Object], prefixes: &[Route], addresses: &[u8]) -> Kernel {
        let loaded = objects.iter().map(|object| {
            let loaded = kernel::load_filter(object).unwrap_or_else(|error| panic!("{error}"));
            loaded.maps.update(1, &[0; 4], addresses).expect("an array");
            for (key, value) in prefixes {
                loaded.maps.update(2, key, value).expect("room");
            }
            loaded
        });
        Kernel { loaded: loaded.collect() }
    }
}

impl Side for Kernel {
    fn time(&mut self, with_look_up: bool) -> f64 {
        f64::from(self.loaded[usize::from(with_look_up)].repeat(0, RUNS).expect("a filter").nanoseconds)
    }

    fn state(&mut self) -> Vec<u8> {
        self.loaded[1].maps.lookup(0, &[0; 4]).expect("an array").expect("has its value")
    }
}

#[test]
fn look_ups_find_what_the_kernels_do() {
    testkit::cpu::stay_on_this();
    if let Err(reason) = kernel::available() {
        return skip::skip("isa::kernel", reason);
    }
    for entries in [1_000, 100_000] {
        let (prefixes, addresses) = table(entries);
        let objects = [object(entries, ""), object(entries, LOOK_UP)];
        let mut sides: [(&str, Box<dyn Side>); 2] = [
            ("weir", Box::new(Weir::new(&objects, &prefixes, &addresses))),
            ("kernel", Box::new(Kernel::new(&objects, &prefixes, &addresses))),
        ];
        let mut times = [[Vec::new(), Vec::new()], [Vec::new(), Vec::new()]];
        for _ in 0..measure::rounds(ROUNDS) {
            for (times, (_, side)) in times.iter_mut().zip(&mut sides) {
                times[0].push(side.time(false));
                times[1].push(side.time(true));
            }
        }
        let states: Vec<_> = sides.iter_mut().map(|(_, side)| side.state()).collect();
        assert_eq!(states[0], states[1], "{entries} prefixes: runs, and the sum of the values found");
        for ((name, _), [without, with]) in sides.iter().zip(times) {
            let ns = least(&with) - least(&without);
            println!("a look-up among {entries} prefixes, {name}: {ns:.0} ns");
        }
    }
}
