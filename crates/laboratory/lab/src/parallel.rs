//! Repetitions on all cores, with results independent of the number of cores.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs `job` for 0 to `count` - 1 on all cores and returns the results in that order.
///
/// A job must derive its random numbers from its index, so that the results do not depend on the
/// order of execution.
///
/// # Panics
/// If a job panics.
pub fn run<T: Send>(count: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    run_on(threads, count, job)
}

fn run_on<T: Send>(threads: usize, count: usize, job: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= count {
                return done;
            }
            done.push((number, job(number)));
        }
    };
    let mut results: Vec<(usize, T)> = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads.clamp(1, count.max(1)))
            .map(|_| scope.spawn(work))
            .collect();
        let mut all = Vec::with_capacity(count);
        for worker in workers {
            match worker.join() {
                Ok(part) => all.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_with_any_number_of_threads() {
        let expected: Vec<usize> = (0..100).map(|i| i * i).collect();
        for threads in [1, 2, 7, 200] {
            let results = run_on(threads, 100, |i| {
                if i % 3 == 0 {
                    thread::yield_now();
                }
                i * i
            });
            assert_eq!(results, expected, "{threads} threads");
        }
        assert!(run(0, |i| i).is_empty());
    }
}
