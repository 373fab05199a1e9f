//! Which commands there are, how they are used, and what a call of one looks like.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::daemon::Daemon;

/// How the peer wants results to look; a property of its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    #[default]
    Text,
    /// JSON for programs.
    Json,
}

/// One request: a command and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Name of the command.
    pub command: String,
    /// What follows the name.
    pub arguments: Vec<String>,
    /// How the result should look.
    pub format: Format,
}

impl Call {
    /// The call that a JSON-RPC request stands for.
    ///
    /// # Errors
    /// When an argument is not text.
    pub fn from_request(
        command: String,
        params: Vec<Value>,
        format: Format,
    ) -> Result<Self, String> {
        let argument = |(index, value)| match value {
            Value::String(text) => Ok(text),
            other => Err(format!(
                "\"{command}\" command has an argument {} that is not a string: {other}",
                index + 1
            )),
        };
        let arguments = params.into_iter().enumerate().map(argument).collect::<Result<_, _>>()?;
        Ok(Self { command, arguments, format })
    }

    /// Argument `index`, if it was given.
    pub fn argument(&self, index: usize) -> Option<&str> {
        self.arguments.get(index).map(String::as_str)
    }
}

/// Result of a command that went well.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Text, printed as it is.
    Text(String),
    /// A document; only for calls whose format is [`Format::Json`].
    Json(Value),
}

impl Output {
    /// What a command with nothing to say returns.
    pub fn none() -> Self {
        Self::Text(String::new())
    }

    /// The `result` member of the reply to a call in `format`. Text is wrapped where JSON was
    /// asked for, as Open vSwitch does for commands that have no JSON form.
    pub fn into_result(self, format: Format) -> Value {
        match (self, format) {
            (Self::Text(text), Format::Text) => Value::String(end_line(text)),
            (Self::Text(text), Format::Json) => json!({"reply": text, "reply-format": "plain"}),
            (Self::Json(value), _) => value,
        }
    }
}

/// `text` with a newline at its end, unless it is empty: tools up to Open vSwitch 3.x print it as
/// it comes.
pub fn end_line(mut text: String) -> String {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

/// Result of a command; an error is a sentence for the operator.
pub type Outcome = Result<Output, String>;

/// Answers one call, now or later.
#[derive(Debug)]
pub struct Responder(oneshot::Sender<Outcome>);

impl Responder {
    /// A responder and what its answer arrives at.
    pub fn new() -> (Self, oneshot::Receiver<Outcome>) {
        let (sender, receiver) = oneshot::channel();
        (Self(sender), receiver)
    }

    /// Sends the answer. That the peer has gone meanwhile is its own affair.
    pub fn answer(self, outcome: Outcome) {
        let _ = self.0.send(outcome);
    }
}

/// What runs a command.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Answers at once.
    Now(fn(&mut Daemon, &Call) -> Outcome),
    /// Keeps the responder and answers when it can.
    Later(fn(&mut Daemon, &Call, Responder)),
    /// `set-options`, which concerns only the connection and is answered there.
    Connection,
}

/// One command.
#[derive(Clone, Copy)]
pub struct Command {
    /// Its name, e.g. `dpif/show`.
    pub name: &'static str,
    /// Its arguments, as `list-commands` shows them; completion scripts read this. `None` hides
    /// the command from the list.
    pub usage: Option<&'static str>,
    /// Fewest arguments.
    pub min_arguments: usize,
    /// Most arguments.
    pub max_arguments: usize,
    /// What runs it.
    pub handler: Handler,
}

/// Why a call was not run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// There is no such command.
    #[error(
        "\"{0}\" is not a valid command (use \"list-commands\" to see a list of valid commands)"
    )]
    Unknown(String),
    /// Arguments are missing.
    #[error("\"{name}\" command requires at least {least} arguments\nusage: {name} {usage}")]
    TooFew {
        /// The command.
        name: &'static str,
        /// How many it needs.
        least: usize,
        /// Its usage.
        usage: &'static str,
    },
    /// There are too many arguments.
    #[error("\"{name}\" command takes at most {most} arguments\nusage: {name} {usage}")]
    TooMany {
        /// The command.
        name: &'static str,
        /// How many it takes.
        most: usize,
        /// Its usage.
        usage: &'static str,
    },
}

/// All commands by name.
pub struct Registry {
    commands: BTreeMap<&'static str, Command>,
}

impl Registry {
    /// A registry of `commands`.
    pub fn new<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Self {
        Self { commands: commands.into_iter().map(|command| (command.name, *command)).collect() }
    }

    /// The handler of a call whose arguments are of the right number.
    ///
    /// # Errors
    /// When the command does not exist, or the number of arguments is wrong.
    pub fn find(&self, call: &Call) -> Result<Handler, CallError> {
        let command = self
            .commands
            .get(call.command.as_str())
            .ok_or_else(|| CallError::Unknown(call.command.clone()))?;
        let given = call.arguments.len();
        let (name, usage) = (command.name, command.usage.unwrap_or_default());
        if given < command.min_arguments {
            return Err(CallError::TooFew { name, least: command.min_arguments, usage });
        }
        if given > command.max_arguments {
            return Err(CallError::TooMany { name, most: command.max_arguments, usage });
        }
        Ok(command.handler)
    }

    /// The answer to `list-commands`.
    pub fn list(&self, format: Format) -> Output {
        let shown =
            self.commands.values().filter_map(|command| Some((command.name, command.usage?)));
        match format {
            Format::Text => Output::Text(
                shown.fold(String::from("The available commands are:\n"), |text, (name, usage)| {
                    text + &format!("  {name:<23} {usage}\n")
                }),
            ),
            Format::Json => Output::Json(json!(shown.collect::<BTreeMap<_, _>>())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(_: &mut Daemon, _: &Call) -> Outcome {
        Ok(Output::none())
    }

    fn registry() -> Registry {
        let command = |name, usage, min_arguments, max_arguments| Command {
            name,
            usage,
            min_arguments,
            max_arguments,
            handler: Handler::Now(nothing),
        };
        Registry::new(&[
            command("b/two", Some("one two"), 2, 2),
            command("a/none", Some(""), 0, 0),
            command("hidden", None, 0, usize::MAX),
        ])
    }

    fn find(command: &str, arguments: &[&str]) -> Result<(), String> {
        let call = Call {
            command: command.to_owned(),
            arguments: arguments.iter().map(|&a| a.to_owned()).collect(),
            format: Format::Text,
        };
        registry().find(&call).map(|_| ()).map_err(|error| error.to_string())
    }

    #[test]
    fn counts_arguments() {
        assert_eq!(find("b/two", &["1", "2"]), Ok(()));
        assert_eq!(find("hidden", &["1", "2", "3"]), Ok(()));
        assert_eq!(
            find("b/two", &["1"]),
            Err("\"b/two\" command requires at least 2 arguments\nusage: b/two one two".to_owned())
        );
        assert_eq!(
            find("a/none", &["1"]),
            Err("\"a/none\" command takes at most 0 arguments\nusage: a/none ".to_owned())
        );
        assert_eq!(
            find("c", &[]),
            Err("\"c\" is not a valid command (use \"list-commands\" to see a list of valid \
                 commands)"
                .to_owned())
        );
    }

    #[test]
    fn lists_what_is_not_hidden() {
        assert_eq!(
            registry().list(Format::Text),
            Output::Text(
                "The available commands are:\n  a/none                  \n  \
                 b/two                   one two\n"
                    .to_owned()
            )
        );
        assert_eq!(
            registry().list(Format::Json),
            Output::Json(json!({"a/none": "", "b/two": "one two"}))
        );
    }

    #[test]
    fn wraps_text_where_json_is_wanted() {
        let text = || Output::Text("hi".to_owned());
        assert_eq!(text().into_result(Format::Text), json!("hi\n"));
        assert_eq!(Output::none().into_result(Format::Text), json!(""));
        assert_eq!(
            text().into_result(Format::Json),
            json!({"reply": "hi", "reply-format": "plain"})
        );
        assert_eq!(Output::Json(json!([1])).into_result(Format::Json), json!([1]));
    }
}
