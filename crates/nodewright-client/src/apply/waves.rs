//! Waves of steps: a few nodes first, then twice as many, and so on.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

/// A number of nodes, or a percentage of all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Count(usize),
    Percent(usize),
}

impl FromStr for Share {
    type Err = String;

    fn from_str(text: &str) -> Result<Share, String> {
        let wrong =
            || format!("{text:?} is not valid; expected a number of nodes or a percentage, such as 5 or 2%");
        let share = match text.strip_suffix('%') {
            Some(percent) => Share::Percent(percent.parse().map_err(|_| wrong())?),
            None => Share::Count(text.parse().map_err(|_| wrong())?),
        };
        match share {
            Share::Count(0) | Share::Percent(0 | 101..) => Err(wrong()),
            share => Ok(share),
        }
    }
}

/// Size of the first wave, and the pause between waves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Canary {
    pub first: Share,
    pub pause: Duration,
}

impl Canary {
    /// The index ranges of the waves for this number of steps. Each wave is twice as large as the one before;
    /// the last one contains the rest.
    pub fn waves(&self, steps: usize) -> Vec<Range<usize>> {
        let mut size = match self.first {
            Share::Count(count) => count.max(1),
            Share::Percent(percent) => (steps * percent).div_ceil(100).max(1),
        };
        let mut waves = Vec::new();
        let mut start = 0;
        while start < steps {
            let end = (start + size).min(steps);
            waves.push(start..end);
            start = end;
            size = size.saturating_mul(2);
        }
        waves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waves(first: &str, steps: usize) -> Vec<usize> {
        let canary = Canary { first: first.parse().expect("a share"), pause: Duration::ZERO };
        canary.waves(steps).into_iter().map(|w| w.len()).collect()
    }

    #[test]
    fn each_wave_is_twice_the_one_before() {
        assert_eq!(waves("5", 100), [5, 10, 20, 40, 25]);
        assert_eq!(waves("1%", 250), [3, 6, 12, 24, 48, 96, 61]);
        assert_eq!(waves("10", 3), [3]);
        assert_eq!(waves("10", 0), [0usize; 0]);
    }

    #[test]
    fn a_share_is_a_count_or_a_percentage() {
        for wrong in ["", "0", "0%", "101%", "-1", "few", "1.5%"] {
            assert!(wrong.parse::<Share>().is_err(), "{wrong}");
        }
    }
}
