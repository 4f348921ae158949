//! Axes: range, round ticks, and the mapping of values to positions.

use serde::Serialize;

use crate::text::trimmed;

/// An axis of a figure.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Axis {
    /// Name of the quantity.
    pub label: String,
    /// Unit; may be empty.
    pub unit: String,
    /// Lower end; determined by the data if `None`.
    pub min: Option<f64>,
    /// Upper end; determined by the data if `None`.
    pub max: Option<f64>,
    /// Mapping of values to positions.
    pub scale: Scale,
    /// Named values, which replace the round numbers at the ticks.
    pub names: Vec<(f64, String)>,
}

/// Mapping of values to positions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Linear: equal differences have equal lengths.
    #[default]
    Linear,
    /// Equal ratios have equal lengths; values must be above zero.
    Log,
}

impl Axis {
    /// Returns a linear axis whose range is determined by the data.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self {
            label: label.into(),
            unit: unit.into(),
            ..Self::default()
        }
    }

    /// Formats a value for the data file: by its name, if it has one.
    pub(crate) fn value(&self, value: f64) -> String {
        let named = self.name(value);
        named.map_or_else(|| value.to_string(), str::to_owned)
    }

    /// Returns the name of a value, if it has one.
    pub fn name(&self, value: f64) -> Option<&str> {
        let is_named = |(own, _): &&(f64, String)| (own - value).abs() < f64::EPSILON;
        let named = self.names.iter().find(is_named);
        named.map(|(_, name)| name.as_str())
    }

    /// Returns an axis of named values: 1, 2, 3 and so on.
    pub fn named(label: &str, names: &[impl AsRef<str>]) -> Self {
        let names = names.iter().enumerate();
        let names: Vec<(f64, String)> = names
            .map(|(n, name)| (n as f64 + 1.0, name.as_ref().into()))
            .collect();
        let last = names.len().max(1) as f64 + 0.5;
        Self {
            names,
            ..Self::linear(label, "").range(0.5, last)
        }
    }

    /// Sets a fixed range.
    #[must_use]
    pub fn range(mut self, min: f64, max: f64) -> Self {
        (self.min, self.max) = (Some(min), Some(max));
        self
    }

    /// Sets the lower end.
    #[must_use]
    pub fn from(mut self, min: f64) -> Self {
        self.min = Some(min);
        self
    }

    /// Returns the label with its unit.
    pub(crate) fn caption(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} [{}]", self.label, self.unit)
        }
    }

    /// Computes the layout for `values`, with about `wanted` ticks.
    pub(crate) fn layout(&self, values: impl Iterator<Item = f64>, wanted: usize) -> AxisLayout {
        let usable = |v: &f64| v.is_finite() && (self.scale == Scale::Linear || *v > 0.0);
        let (low, high) = values
            .filter(usable)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| {
                (low.min(v), high.max(v))
            });
        let (low, high) = if low <= high {
            (low, high)
        } else {
            (1.0, 10.0)
        };
        let low = self.min.filter(usable).unwrap_or(low);
        let high = self.max.filter(usable).unwrap_or(high);
        let mut laid = match self.scale {
            Scale::Linear => self.linear_ticks(low, high.max(low), wanted),
            Scale::Log => self.log_ticks(low, high.max(low)),
        };
        if !self.names.is_empty() {
            laid.ticks.clone_from(&self.names);
        }
        laid
    }

    fn linear_ticks(&self, low: f64, high: f64, wanted: usize) -> AxisLayout {
        let high = if high > low {
            high
        } else {
            low + low.abs().max(1.0)
        };
        let step = round_step((high - low) / wanted as f64);
        // Ends that are not fixed are moved outwards to the next tick.
        let min = self.min.unwrap_or_else(|| (low / step).floor() * step);
        let max = self.max.unwrap_or_else(|| (high / step).ceil() * step);
        let first = (min / step - 1e-9).ceil() as i64;
        let last = (max / step + 1e-9).floor() as i64;
        let exponent = step.log10().floor();
        let quarter = (step / 10f64.powf(exponent) - 2.5).abs() < 1e-9;
        let decimals = (f64::from(u8::from(quarter)) - exponent).max(0.0) as usize;
        let ticks = (first..=last)
            .map(|k| k as f64 * step)
            .map(|v| (v, format!("{v:.decimals$}")))
            .collect();
        AxisLayout {
            scale: Scale::Linear,
            min,
            max,
            ticks,
        }
    }

    fn log_ticks(&self, low: f64, high: f64) -> AxisLayout {
        let min = self.min.unwrap_or_else(|| 10f64.powf(low.log10().floor()));
        let max = self.max.unwrap_or_else(|| 10f64.powf(high.log10().ceil()));
        let max = if max > min { max } else { min * 10.0 };
        let (first, last) = (min.log10().floor() as i32, max.log10().ceil() as i32);
        let within = |v: &f64| *v >= min * (1.0 - 1e-9) && *v <= max * (1.0 + 1e-9);
        let multiples: &[f64] = if (max / min).log10() <= 2.5 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let ticks = (first..=last)
            .flat_map(|e| multiples.iter().map(move |m| m * 10f64.powi(e)))
            .filter(within)
            .map(|v| (v, tick(v)))
            .collect();
        AxisLayout {
            scale: Scale::Log,
            min,
            max,
            ticks,
        }
    }
}

/// An axis with its final range and ticks.
#[derive(Clone, Debug)]
pub(crate) struct AxisLayout {
    scale: Scale,
    pub(crate) min: f64,
    pub(crate) max: f64,
    /// Values and labels.
    pub(crate) ticks: Vec<(f64, String)>,
}

impl AxisLayout {
    /// Returns the position of `value`: 0 at the lower end of the axis, 1 at its upper end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.min) / (self.max - self.min),
            // Values without a logarithm lie below the axis, where they are clipped.
            Scale::Log if value <= 0.0 => -1.0,
            Scale::Log => (value / self.min).ln() / (self.max / self.min).ln(),
        }
    }

    /// Returns whether `value` lies on the axis.
    pub(crate) fn holds(&self, value: f64) -> bool {
        (-1e-9..=1.0 + 1e-9).contains(&self.place(value))
    }
}

/// Formats a tick of a logarithmic axis.
fn tick(value: f64) -> String {
    let decimals = if value < 0.001 { 9 } else { 3 };
    trimmed(&format!("{value:.decimals$}"))
}

/// Returns the smallest of 1, 2, 2.5 and 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let factor = [1.0, 2.0, 2.5, 5.0]
        .into_iter()
        .find(|f| f * power >= step * (1.0 - 1e-9))
        .unwrap_or(10.0);
    factor * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, values: &[f64], wanted: usize) -> Vec<String> {
        let laid = axis.layout(values.iter().copied(), wanted);
        laid.ticks.into_iter().map(|(_, text)| text).collect()
    }

    fn logarithmic() -> Axis {
        Axis {
            scale: Scale::Log,
            ..Axis::linear("", "")
        }
    }

    #[test]
    fn ticks_are_round() {
        let axis = Axis::linear("", "");
        assert_eq!(
            texts(&axis, &[3.0, 97.0], 5),
            ["0", "20", "40", "60", "80", "100"]
        );
        assert_eq!(
            texts(&axis, &[0.0, 1.0], 4),
            ["0.00", "0.25", "0.50", "0.75", "1.00"]
        );
        assert_eq!(
            texts(&axis, &[-0.3, 0.3], 3),
            ["-0.4", "-0.2", "0.0", "0.2", "0.4"]
        );
        assert_eq!(
            texts(&axis, &[0.0, 1000.0], 4),
            ["0", "250", "500", "750", "1000"]
        );
        assert_eq!(
            texts(&axis.clone().range(1500.0, 1900.0), &[], 4),
            ["1500", "1600", "1700", "1800", "1900"]
        );
    }

    #[test]
    fn named_values_have_their_names() {
        let laid = Axis::named("state", &["down", "up"]).layout([1.0, 2.0].into_iter(), 5);
        let names: Vec<&str> = laid.ticks.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(names, ["down", "up"]);
        assert!((laid.place(1.0), laid.place(2.0)) == (0.25, 0.75));
    }

    #[test]
    fn fixed_ends_need_not_be_round() {
        let laid = Axis::linear("", "")
            .range(3.0, 11.0)
            .layout([].into_iter(), 4);
        assert!((laid.place(3.0), laid.place(11.0)) == (0.0, 1.0));
        assert_eq!(laid.ticks.first().unwrap().1, "4");
        assert!(laid.holds(11.0) && !laid.holds(11.1));
    }

    #[test]
    fn logarithms_have_decades() {
        let axis = logarithmic();
        assert_eq!(
            texts(&axis, &[0.2, 30.0, 2000.0], 5),
            ["0.1", "1", "10", "100", "1000", "10000"]
        );
        assert_eq!(texts(&axis, &[12.0, 80.0], 5), ["10", "20", "50", "100"]);
        let laid = axis.layout([1.0, 100.0].into_iter(), 5);
        assert!((laid.place(10.0) - 0.5).abs() < 1e-12);
        assert!(laid.place(0.0) < 0.0);
    }

    #[test]
    fn empty_and_single_value_axes_are_valid() {
        for values in [&[][..], &[5.0], &[f64::NAN], &[0.0]] {
            for axis in [Axis::linear("", ""), logarithmic()] {
                let laid = axis.layout(values.iter().copied(), 5);
                assert!(laid.max > laid.min && laid.ticks.len() >= 2, "{laid:?}");
                assert!(laid.ticks.len() < 20);
            }
        }
    }
}
