//! `dpif/show-dp-features` and `dpif/set-dp-features`: what translation may ask of the datapath.

use ofproto::features::{Feature, NamedFeature};
use serde_json::{Map, Value, json};

use super::command;
use crate::appctl::registry::{Call, Command, Format, Handler, Outcome, Output};
use crate::daemon::Daemon;

const NO_BRIDGE: &str = "no such bridge";

pub(super) const COMMANDS: &[Command] = &[
    command("dpif/show-dp-features", "bridge", (1, 1), Handler::Now(show)),
    command(
        "dpif/set-dp-features",
        "[--force] bridge [feature [value]]",
        (1, 4),
        Handler::Now(set),
    ),
];

fn value_json(feature: Feature) -> Value {
    match feature {
        Feature::Flag(flag) => json!(flag),
        Feature::Number(number) => json!(number),
    }
}

/// What the datapath has of a feature, for people.
fn supported_text(feature: &NamedFeature) -> String {
    let title = feature.title;
    match feature.supported {
        Feature::Flag(true) => format!("{title}: Yes\n"),
        Feature::Flag(false) => format!("{title}: No\n"),
        Feature::Number(number) => format!("{title}: {number}\n"),
    }
}

/// What is made use of, and what there is.
fn value_text(feature: &NamedFeature) -> String {
    let NamedFeature { name, title, value, supported } = feature;
    let (value, supported) = (value_json(*value), value_json(*supported));
    format!("{name} ({title}) : [run time]:{value}, [boot time]:{supported}\n")
}

/// Features with what is made use of, and what there is.
fn features_json(features: &[NamedFeature]) -> Value {
    let features = features.iter().map(|feature| {
        let values = json!({
            "value": value_json(feature.value),
            "supported": value_json(feature.supported),
        });
        (feature.name.to_owned(), values)
    });
    Value::Object(features.collect::<Map<_, _>>())
}

fn show(daemon: &mut Daemon, call: &Call) -> Outcome {
    let name = call.argument(0).unwrap_or_default();
    let features = daemon.bridges.features(name).ok_or(NO_BRIDGE)?.all();
    Ok(match call.format {
        Format::Text => Output::Text(features.iter().map(supported_text).collect()),
        Format::Json => Output::Json(features_json(&features)),
    })
}

/// Tools take it for no failure when a feature cannot be set.
fn set(daemon: &mut Daemon, call: &Call) -> Outcome {
    let (force, arguments) = match call.arguments.as_slice() {
        [option, rest @ ..] if option == "--force" && !rest.is_empty() => (true, rest),
        all => (false, all),
    };
    let (bridge, rest) = arguments.split_first().ok_or(NO_BRIDGE)?;
    let features = daemon.bridges.features(bridge).ok_or(NO_BRIDGE)?;
    let shown = match rest {
        [] => features.all(),
        [name] => match features.get(name) {
            Some(feature) => vec![feature],
            None => return Ok(Output::Text("Unexpected support field".to_owned())),
        },
        [name, value, ..] => {
            return Ok(match daemon.bridges.set_feature(bridge, name, value, force) {
                Ok(()) => Output::none(),
                Err(error) => Output::Text(error.to_string()),
            });
        }
    };
    Ok(match call.format {
        Format::Text => Output::Text(shown.iter().map(value_text).collect()),
        Format::Json => Output::Json(features_json(&shown)),
    })
}

#[cfg(test)]
mod tests {
    use ofproto::features::Features;

    use super::*;

    #[test]
    fn features_are_shown_as_tools_expect_them() {
        let features = Features { trunc: false, sample_nesting: 2, ..Features::default() };
        let (trunc, nesting) =
            (features.get("trunc").unwrap(), features.get("sample_nesting").unwrap());
        assert_eq!(supported_text(&trunc), "Truncate action: Yes\n");
        assert_eq!(supported_text(&nesting), "Sample nesting: 10\n");
        assert_eq!(
            value_text(&trunc),
            "trunc (Truncate action) : [run time]:false, [boot time]:true\n"
        );
        assert_eq!(
            value_text(&nesting),
            "sample_nesting (Sample nesting) : [run time]:2, [boot time]:10\n"
        );
        assert_eq!(features_json(&[trunc]), json!({"trunc": {"value": false, "supported": true}}));
    }
}
