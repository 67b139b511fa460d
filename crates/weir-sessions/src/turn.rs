//! Who comes to a process that is held before its own code runs, where several recordings want it: one after the other, each in time.
//!
//! One process can be traced by one weir at a time. So the first takes it where it is held, and it runs on to where its libraries are loaded and none of
//! its code has run; there it waits for that recording, which lets it go on once the others have come:
//!
//! ```text
//! held ──first: take──▶ told ──first: took──▶ (not held) ──first: at the door──▶ at the door ──others: join──▶ first: go on
//! ```
//!
//! In: what parts of sessions are ready for, and what their recordings say. Out: what to say to each recording now. Bounded by the first
//! recording, which waits for a moment alone.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;

/// The turn of a process.
pub struct Turn {
    state: RefCell<State>,
}

struct State {
    hold: Option<Box<dyn Any>>,
    /// Parts of sessions that record it, the first to come first.
    members: Vec<Member>,
    stage: Stage,
}

struct Member {
    part: String,
    is_ready: bool,
    is_told: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Held,
    Told,
    AtDoor,
    Running,
}

/// What the daemon says to a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Word {
    /// The process is held: it is to be attached to from its first instruction on. Others come after that.
    Take { others: bool },
    /// It runs, or waits for another recording, and is to be attached to now.
    Join { at_door: bool },
    /// It need not wait any longer.
    GoOn,
}

impl Turn {
    /// The process is held as long as `hold` is there.
    pub fn of(hold: Box<dyn Any>) -> Turn {
        Turn::at(Some(hold), Stage::Held)
    }

    /// The process runs: who wants it joins at once.
    pub(crate) fn of_running() -> Turn {
        Turn::at(None, Stage::Running)
    }

    fn at(hold: Option<Box<dyn Any>>, stage: Stage) -> Turn {
        Turn { state: RefCell::new(State { hold, members: Vec::new(), stage }) }
    }

    /// The process was never held.
    pub(crate) fn is_of_running(&self) -> bool {
        self.state.borrow().stage == Stage::Running
    }

    /// A part records it too.
    pub(crate) fn enter(&self, part: &str) {
        let mut state = self.state.borrow_mut();
        if !state.members.iter().any(|member| member.part == part) {
            state.members.push(Member { part: part.to_owned(), is_ready: false, is_told: false });
        }
    }

    /// A part has it, or does not want it any more.
    pub(crate) fn leave(&self, part: &str) {
        let mut state = self.state.borrow_mut();
        let is_first = state.is_first(part);
        state.members.retain(|member| member.part != part);
        // Those that are left come as soon as they can: it waits for none of them.
        if is_first && matches!(state.stage, Stage::Told | Stage::AtDoor) {
            (state.stage, state.hold) = (Stage::Running, None);
        }
        if state.members.is_empty() {
            state.hold = None;
        }
    }

    /// The first has stopped it: it need not be held.
    pub(crate) fn took(&self) {
        self.state.borrow_mut().hold = None;
    }

    /// It waits for the first.
    pub(crate) fn is_at_door(&self) {
        let mut state = self.state.borrow_mut();
        if state.stage == Stage::Told {
            state.stage = Stage::AtDoor;
        }
    }

    /// It is not held any more, and everybody comes to it when they can.
    pub(crate) fn runs(&self) {
        let mut state = self.state.borrow_mut();
        (state.stage, state.hold) = (Stage::Running, None);
    }

    /// It is in the hands of the first by now, or soon.
    pub(crate) fn is_told_to(&self, part: &str) -> bool {
        let state = self.state.borrow();
        state.is_first(part) && matches!(state.stage, Stage::Told | Stage::AtDoor)
    }

    /// The first is a part that has not got its word yet.
    pub(crate) fn is_held_for(&self, part: &str) -> bool {
        let state = self.state.borrow();
        state.is_first(part) && state.stage == Stage::Held
    }

    /// The recording of a part has ended before it had it: the next gets the word anew.
    pub(crate) fn again(&self, part: &str) {
        let mut state = self.state.borrow_mut();
        if state.is_first(part) && state.stage != Stage::Running {
            state.stage = if state.hold.is_some() { Stage::Held } else { Stage::Running };
        }
        state
            .members
            .iter_mut()
            .filter(|member| member.part == part)
            .for_each(|member| member.is_told = false);
    }

    /// What to say to the recording of a part, once. `is_ready`: it records.
    pub(crate) fn next(&self, part: &str, is_ready: bool) -> Option<Word> {
        let mut state = self.state.borrow_mut();
        let (is_first, stage) = (state.is_first(part), state.stage);
        let at = state.members.iter().position(|member| member.part == part)?;
        state.members[at].is_ready = is_ready;
        match stage {
            Stage::Held if is_first && state.members.iter().all(|member| member.is_ready) => {
                state.stage = Stage::Told;
                Some(Word::Take { others: state.members.len() > 1 })
            }
            Stage::AtDoor if is_first => (state.members.len() == 1).then_some(Word::GoOn),
            Stage::AtDoor | Stage::Running if is_ready && !state.members[at].is_told => {
                state.members[at].is_told = true;
                Some(Word::Join { at_door: stage == Stage::AtDoor })
            }
            _ => None,
        }
    }
}

impl State {
    fn is_first(&self, part: &str) -> bool {
        self.members.first().is_some_and(|member| member.part == part)
    }
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn held() -> (Turn, Rc<()>) {
        let hold = Rc::new(());
        (Turn::of(Box::new(hold.clone())), hold)
    }

    fn is_held(hold: &Rc<()>) -> bool {
        Rc::strong_count(hold) == 2
    }

    #[test]
    fn who_is_alone_takes_it() {
        let (turn, hold) = held();
        turn.enter("a");
        assert_eq!(turn.next("a", false), None);
        assert_eq!(turn.next("a", true), Some(Word::Take { others: false }));
        assert_eq!(turn.next("a", true), None);
        assert!(is_held(&hold) && turn.is_told_to("a"));
        turn.took();
        assert!(!is_held(&hold));
    }

    const AT_DOOR: Option<Word> = Some(Word::Join { at_door: true });
    const RUNNING: Option<Word> = Some(Word::Join { at_door: false });

    #[test]
    fn others_join_where_it_waits_for_the_first() {
        let (turn, _hold) = held();
        ["a", "b", "c", "b"].into_iter().for_each(|part| turn.enter(part));
        assert_eq!(turn.next("a", true), None);
        assert_eq!(turn.next("b", true), None);
        assert_eq!(turn.next("c", true), None);
        assert_eq!(turn.next("a", true), Some(Word::Take { others: true }));
        turn.took();
        assert_eq!(turn.next("b", true), None);
        turn.is_at_door();
        assert_eq!(turn.next("b", true), AT_DOOR);
        assert_eq!(turn.next("b", true), None);
        assert_eq!(turn.next("a", true), None);
        turn.leave("b");
        assert_eq!(turn.next("c", true), AT_DOOR);
        turn.leave("c");
        assert_eq!(turn.next("a", true), Some(Word::GoOn));
    }

    #[test]
    fn it_is_held_as_long_as_one_wants_it() {
        let (turn, hold) = held();
        turn.enter("a");
        turn.enter("b");
        turn.leave("a");
        assert!(is_held(&hold));
        assert_eq!(turn.next("b", true), Some(Word::Take { others: false }));
        // Its recording was another by then.
        turn.again("b");
        assert_eq!(turn.next("b", true), Some(Word::Take { others: false }));
        turn.leave("b");
        assert!(!is_held(&hold));
    }

    #[test]
    fn who_wants_one_that_runs_joins_at_once() {
        let turn = Turn::of_running();
        turn.enter("a");
        turn.enter("b");
        assert_eq!((turn.next("a", false), turn.next("b", true)), (None, RUNNING));
        assert_eq!((turn.next("a", true), turn.next("a", true)), (RUNNING, None));
        turn.leave("a");
        assert!(turn.is_of_running() && turn.next("b", true).is_none());
    }

    #[test]
    fn others_come_late_where_the_first_is_lost() {
        let (turn, hold) = held();
        turn.enter("a");
        turn.enter("b");
        assert_eq!((turn.next("b", true), turn.next("a", true)), (None, Some(Word::Take { others: true })));
        turn.leave("a");
        assert!(!is_held(&hold));
        // It runs on, and those that are left come to it.
        assert_eq!((turn.next("b", true), turn.next("b", true)), (RUNNING, None));
    }
}
