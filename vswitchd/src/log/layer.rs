//! The subscriber layer that turns events into lines.

use std::fmt::{self, Write as _};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::Log;
use super::level::Level;
use super::module::Module;
use super::rate_limit::Verdict;

impl<S: Subscriber> Layer<S> for Log {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Asked again whenever levels change, so a disabled call site costs one load.
        if is_wanted(self, metadata) { Interest::always() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        is_wanted(self, metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match self.most_verbose_level() {
            Level::Off | Level::Emergency => LevelFilter::OFF,
            Level::Error => LevelFilter::ERROR,
            Level::Warning => LevelFilter::WARN,
            Level::Info => LevelFilter::INFO,
            Level::Debug => LevelFilter::DEBUG,
        })
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let Some((module, level)) = module_and_level(metadata) else { return };
        let mut limited = Limited(false);
        event.record(&mut limited);
        if limited.0 {
            match self.admit(module, metadata.callsite()) {
                Verdict::Drop => return,
                Verdict::Pass => {}
                Verdict::PassAfter(summary) => self.write(module, level, &summary.to_string()),
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.write(module, level, &message.0);
    }
}

fn module_and_level(metadata: &Metadata<'_>) -> Option<(Module, Level)> {
    Some((Module::of_target(metadata.target())?, Level::of_event(*metadata.level())?))
}

fn is_wanted(log: &Log, metadata: &Metadata<'_>) -> bool {
    metadata.is_event()
        && module_and_level(metadata).is_some_and(|(module, level)| log.is_enabled(module, level))
}

/// Whether the event has `limited = true`.
struct Limited(bool);

impl Visit for Limited {
    fn record_bool(&mut self, field: &Field, value: bool) {
        if field.name() == "limited" {
            self.0 = value;
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// The text of the event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string fails only if the value's own formatting does.
            let _ = write!(self.0, "{value:?}");
        }
    }
}
