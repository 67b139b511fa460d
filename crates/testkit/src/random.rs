//! Numbers that look random and are the same on every machine: what tests with fixed seeds draw from; and how many
//! cases such a test runs.
//!
//! [`Cases`] gives a test the numbers of its cases, until it has used so much CPU time. CPU time, not time: a machine that
//! is busy with something else does not run fewer cases. What is drawn for a case may depend on the seed and on the
//! cases before it, on nothing else, so that the line `cases: VARIABLE=SEED:COUNT`, which is printed when the cases end or one
//! of them fails, names a run that can be repeated exactly.

use std::time::Duration;

use crate::cpu;

/// Where the sequence of a seed begins.
pub fn state(seed: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// The seed and the count that `variable` asks a test for, as `SEED:COUNT`; `every_day` if it is not set.
pub fn seed_and_count(variable: &str, every_day: (u64, u64)) -> (u64, u64) {
    match std::env::var(variable) {
        Ok(given) => parse(&given).unwrap_or_else(|| panic!("{variable} is {given:?}, not SEED:COUNT")),
        Err(_) => every_day,
    }
}

fn parse(given: &str) -> Option<(u64, u64)> {
    let (seed, count) = given.split_once(':')?;
    Some((seed.parse().ok()?, count.parse().ok()?))
}

/// What a random test runs where its variable asks for nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Daily {
    pub seed: u64,
    /// So many cases are run, however long they take.
    pub at_least: u64,
    pub at_most: u64,
    /// CPU time of the thread that asks for the cases, from the first one on.
    pub budget: Duration,
}

/// The numbers of a random test's cases, from 0.
#[derive(Debug)]
pub struct Cases {
    variable: &'static str,
    daily: Daily,
    given: u64,
    /// When the first case began, as `clock` says.
    begin: Option<Duration>,
    clock: fn() -> Duration,
}

impl Cases {
    /// `variable`, where it is set to `SEED:COUNT`, asks for exactly so many cases of that seed, without a budget.
    pub fn of(variable: &'static str, daily: Daily) -> Cases {
        let asked = std::env::var(variable).ok();
        Cases::asked(variable, asked.as_deref(), daily, cpu::used_by_this_thread)
    }

    fn asked(
        variable: &'static str,
        asked: Option<&str>,
        mut daily: Daily,
        clock: fn() -> Duration,
    ) -> Cases {
        if let Some(asked) = asked {
            let (seed, count) =
                parse(asked).unwrap_or_else(|| panic!("{variable} is {asked:?}, not SEED:COUNT"));
            daily = Daily { seed, at_least: count, at_most: count, budget: Duration::ZERO };
        }
        Cases { variable, daily, given: 0, begin: None, clock }
    }

    pub fn seed(&self) -> u64 {
        self.daily.seed
    }

    /// How many cases there have been, with the one that runs now.
    pub fn given(&self) -> u64 {
        self.given
    }
}

impl Iterator for Cases {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let now = (self.clock)();
        let used = now - *self.begin.get_or_insert(now);
        let is_over = self.given >= self.daily.at_least && used >= self.daily.budget;
        if self.given >= self.daily.at_most || is_over {
            return None;
        }
        self.given += 1;
        Some(self.given - 1)
    }
}

impl Drop for Cases {
    fn drop(&mut self) {
        println!("cases: {}={}:{}", self.variable, self.daily.seed, self.given);
    }
}

/// The next number of xorshift64*. `state`: not 0; afterwards where the sequence stands.
pub fn next(state: &mut u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    state.wrapping_mul(0x2545_f491_4f6c_dd1d)
}

/// A sequence of [`next`], and what is drawn from it.
#[derive(Clone, Debug)]
pub struct Source(u64);

impl Source {
    pub fn new(seed: u64) -> Source {
        let mut source = Source(state(seed));
        // The first numbers of small seeds are alike.
        for _ in 0..4 {
            source.number();
        }
        source
    }

    pub fn number(&mut self) -> u64 {
        next(&mut self.0)
    }

    /// A number from 0 to `limit` - 1. `limit`: not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        ((self.number() >> 24) % limit as u64) as usize
    }

    pub fn byte(&mut self) -> u8 {
        (self.number() >> 40) as u8
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// True in `percent` of 100 draws.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `choices`, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::used_by_this_thread;

    #[test]
    fn a_seed_and_a_count_are_numbers_with_a_colon_between() {
        assert_eq!(parse("7:100"), Some((7, 100)));
        for wrong in ["", "7", "7:", ":100", "7:100:1", "-7:100", "a:b"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    const DAILY: Daily = Daily { seed: 3, at_least: 4, at_most: 10, budget: Duration::from_secs(2) };

    #[test]
    fn cases_end_at_the_most_of_them_or_with_the_budget_behind_the_least() {
        let count = |clock: fn() -> Duration| Cases::asked("V", None, DAILY, clock).count();
        assert_eq!(count(|| Duration::from_secs(7)), 10, "no time passes");
        let all_used = || Duration::from_secs(100 * used_by_this_thread().as_nanos() as u64);
        assert_eq!(count(all_used), 4, "each takes more than there is");
    }

    #[test]
    fn a_seed_and_a_count_that_are_asked_for_know_no_budget() {
        let mut cases = Cases::asked("V", Some("7:3"), DAILY, used_by_this_thread);
        assert_eq!((cases.seed(), cases.by_ref().collect::<Vec<u64>>()), (7, vec![0, 1, 2]));
        assert_eq!(cases.given(), 3);
        assert_eq!(Cases::asked("V", Some("7:0"), DAILY, used_by_this_thread).count(), 0);
    }

    #[test]
    #[should_panic(expected = "V is \"7\", not SEED:COUNT")]
    fn what_is_asked_for_wrongly_is_said() {
        Cases::asked("V", Some("7"), DAILY, used_by_this_thread);
    }

    #[test]
    fn no_seed_begins_at_zero() {
        assert!([0, 1, u64::MAX].iter().all(|seed| state(*seed) != 0));
    }
}
