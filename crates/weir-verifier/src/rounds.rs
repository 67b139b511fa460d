//! Helpers that call a function of the program back, round by round.
//!
//! Such a call is followed as the loop that it is: from the instruction either on to the next one (the rounds are over:
//! there may have been none), or into the callback, whose end leads back to the instruction with the caller's
//! registers as they were. What the callback did to stacks stays. So the fixed point over all rounds is found by what
//! `explore` does for every loop, and `Rounds` says how far a path is: a helper's rounds are bounded, so a
//! path need not be followed where it comes again, in the same call, with nothing new but more of them behind it.

use weir_ebpf::helper::{self, HelperProto};

use crate::call::{Arguments, enter};
use crate::explore::{Next, Path, Walk};
use crate::rejection::{Refusal, refuse, unsupported};
use crate::scalar::Scalar;
use crate::state::Value;
use crate::step::{clobber, write};

/// What a helper does with its callback.
struct Callback {
    /// r1 to r5 of each round.
    arguments: [Value; 5],
    /// Most rounds.
    rounds_max: u64,
    /// What the helper answers.
    result: Scalar,
}

/// The least that such a helper answers: -EINVAL.
const RESULT_MIN: i64 = -22;

impl Walk<'_> {
    /// One more round; the end of the rounds waits.
    pub(crate) fn call_with_callback(
        &mut self,
        path: &mut Path,
        helper: &HelperProto,
    ) -> Result<Next, Refusal> {
        let found = self.arguments(path, helper)?;
        self.note(path.at, helper, &found);
        let callback = self.callback(path, helper, &found);
        let Some(target) = found.callback else { return refuse("the helper's table has no callback") };
        if !self.seen[path.at].callback.visit(target) {
            return unsupported("the callback differs from path to path");
        }
        let mut over = path.clone();
        clobber(&mut over);
        write(&mut over, 0, Value::Scalar(callback.result));
        let done = over.state.rounds.take().map_or(0, |rounds| rounds.done);
        over.at += 1;
        // The first round is followed even if there is none, so that an engine finds every callback proven.
        if done > 0 && u64::from(done) >= callback.rounds_max {
            *path = over;
            return Ok(Next::To(path.at));
        }
        enter(path, callback.arguments)?;
        Ok(Next::Both(target, Box::new(over)))
    }

    fn callback(&self, path: &Path, helper: &HelperProto, found: &Arguments) -> Callback {
        let [_, count, _, context, ..] = path.state.registers;
        let most = u64::from(helper::LOOP_ROUNDS_MAX);
        let (arguments, rounds_max) = match found.map {
            Some(map) if helper.id == helper::FOR_EACH_MAP_ELEM => {
                let offset = Scalar::constant(0);
                let (key, element) = (Value::Key { map, offset }, Value::Element { map, offset });
                // Others may come while it is under way.
                let rounds_max = most + u64::from(self.maps[map as usize].max_entries);
                ([Value::Map(map), key, element, context, Value::Uninit], rounds_max)
            }
            _ => {
                // More rounds than the limit are an error instead.
                let rounds_max = if let Value::Scalar(count) = count { count.max.min(most) } else { most };
                let index = Value::Scalar(Scalar::range(0, rounds_max.max(1) - 1));
                ([index, context, Value::Uninit, Value::Uninit, Value::Uninit], rounds_max)
            }
        };
        Callback { arguments, rounds_max, result: Scalar::signed_range(RESULT_MIN, rounds_max as i64) }
    }

    /// Where a callback ends: what it must leave for the next round.
    pub(crate) fn check_round(&mut self, path: &Path) -> Result<(), Refusal> {
        let Some(before) = path.state.records_before_round() else { return Ok(()) };
        let answer = self.number(path, 0)?;
        if answer.max > 1 {
            return refuse(format!(
                "a callback answers 0, to go on, or 1, to stop; here r0 is only known to be {answer}"
            ));
        }
        let held = &path.state.records;
        if held.iter().any(|record| !before.contains(record)) {
            return refuse(
                "a ring record that the callback reserved is neither submitted nor discarded at its end",
            );
        }
        if before.iter().any(|record| !held.contains(record)) {
            return refuse(
                "the callback gives back a ring record that it did not reserve; the next round would do so again",
            );
        }
        Ok(())
    }
}
