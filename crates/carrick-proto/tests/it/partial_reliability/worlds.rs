//! Any plan of messages against any losses.

use proptest::prelude::*;

use crate::common::given_up::course;
use crate::partial_reliability::support::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn reliable_messages_arrive_once_and_others_at_most_once_and_all_in_order(course in course()) {
        let mut run = course.begin(PARTIAL)?;
        run.w.ends[0].shutdown(run.w.now, run.a).unwrap();
        run.until(|w| w.ends.iter().all(|e| e.associations().count() == 0));
        run.judge()?;
    }
}
