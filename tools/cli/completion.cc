// `snug completion SHELL` prints what makes a shell complete the words of `snug`: its commands, the flags of each, and
// files. It is made from the flags' own declarations, so it is always of the program that printed it.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_join.h>
#include <absl/strings/str_replace.h>

#include <cstdio>

#include "engine/base/status.h"
#include "tools/cli/commands.h"
#include "tools/cli/flags/flags.h"
#include "tools/cli/new.h"

namespace snug::core::cli {

CommandFunction RunCompletion, RunNew;

namespace {

constexpr char kShells[] = "bash, zsh or fish";

std::string CommandNames() {
  return absl::StrJoin(Commands(), " ", [](std::string* out, const Command& c) { absl::StrAppend(out, c.name); });
}

// "--batch= --forward": where a value is needed, the shell goes on behind the "=".
std::string FlagWords(const Command& command) {
  return absl::StrJoin(UsageOf(command).flags, " ", [](std::string* out, const Usage::Flag& flag) {
    absl::StrAppend(out, "--", flag.name, flag.value_name.empty() ? "" : "=");
  });
}

// What the first word behind a command is one of, or nothing: a file.
std::string KindsOf(const Command& command) {
  if (command.run == RunCompletion) return "bash zsh fish";
  if (command.run == RunNew) return absl::StrJoin(NewKinds(), " ");
  return "";
}

std::string ForBash() {
  std::string flags;
  for (const Command& command : Commands()) {
    absl::StrAppend(&flags, "    ", command.name, ") flags='", FlagWords(command), "' kinds='", KindsOf(command),
                    "' ;;\n");
  }
  // Bash cuts words at "=", so a flag's value is a word of its own, after "=".
  return absl::StrCat(
      "# bash completion for snug; in ~/.bashrc: source <(snug completion bash)\n"
      "_snug() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} flags='' kinds=''\n"
      "  COMPREPLY=()\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '",
      CommandNames(),
      "' -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${COMP_WORDS[1]} in\n",
      flags,
      "  esac\n"
      "  if [[ $current == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$flags --help\" -- \"$current\"))\n"
      "    [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace\n"
      "  elif ((COMP_CWORD == 2)) && [[ -n $kinds ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$kinds\" -- \"$current\"))\n"
      "  else\n"
      "    compopt -o filenames\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"${current#=}\")\n"
      "  fi\n"
      "}\n"
      "complete -F _snug snug\n");
}

// In single quotes, and where a colon or bracket would end the text.
std::string ZshText(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"'", "'\\''"}, {":", "\\:"}, {"[", "\\["}, {"]", "\\]"}, {"\n", " "}});
}

std::string ForZsh() {
  std::string commands, cases;
  for (const Command& command : Commands()) {
    absl::StrAppend(&commands, "    '", command.name, ":", ZshText(command.summary), "'\n");
    absl::StrAppend(&cases, "    ", command.name, ")\n      _arguments -s");
    for (const Usage::Flag& flag : UsageOf(command).flags) {
      // A flag may be given again (--vary), and its value may be a file.
      const std::string value = flag.value_name.empty() ? "" : absl::StrCat(":", ZshText(flag.value_name), ":_files");
      absl::StrAppend(&cases, " \\\n        '*--", flag.name, flag.value_name.empty() ? "" : "=", "[",
                      ZshText(flag.help), "]", value, "'");
    }
    const std::string kinds = KindsOf(command);
    if (!kinds.empty()) absl::StrAppend(&cases, " \\\n        '1:kind:(", kinds, ")'");
    absl::StrAppend(&cases, " \\\n        '--help[say more]' '*:file:_files'\n      ;;\n");
  }
  return absl::StrCat(
      "#compdef snug\n# zsh completion for snug; in ~/.zshrc, after compinit: source <(snug completion zsh)\n"
      "_snug() {\n"
      "  local -a commands\n"
      "  commands=(\n",
      commands,
      "  )\n"
      "  if ((CURRENT == 2)); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  local command=${words[2]}\n"
      "  shift words\n"
      "  ((CURRENT--))\n"
      "  case $command in\n",
      cases,
      "  esac\n"
      "}\n"
      "compdef _snug snug\n");
}

std::string FishText(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}, {"\n", " "}});
}

std::string ForFish() {
  std::string text =
      "# fish completion for snug; snug completion fish > ~/.config/fish/completions/snug.fish\n"
      "complete -c snug -l help -d 'say more'\n";
  for (const Command& command : Commands()) {
    absl::StrAppend(&text, "complete -c snug -f -n __fish_use_subcommand -a ", command.name, " -d '",
                    FishText(command.summary), "'\n");
    if (const std::string kinds = KindsOf(command); !kinds.empty()) {
      absl::StrAppend(&text, "complete -c snug -n '__fish_seen_subcommand_from ", command.name, "' -a '", kinds, "'\n");
    }
    for (const Usage::Flag& flag : UsageOf(command).flags) {
      absl::StrAppend(&text, "complete -c snug -n '__fish_seen_subcommand_from ", command.name, "' -l ", flag.name,
                      flag.value_name.empty() ? "" : " -r", " -d '", FishText(flag.help), "'\n");
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<int> RunCompletion(const Arguments& arguments) {
  const Flags flags("snug completion SHELL",
                    "Prints what makes a shell (bash, zsh or fish) complete commands, flags and files:\n"
                    "  bash: source <(snug completion bash)     in ~/.bashrc\n"
                    "  zsh:  source <(snug completion zsh)      in ~/.zshrc, after compinit\n"
                    "  fish: snug completion fish > ~/.config/fish/completions/snug.fish");
  SNUG_ASSIGN_OR_RETURN(const std::string shell, flags.ParseOne(arguments, absl::StrCat("a shell: ", kShells)));
  std::string text;
  if (shell == "bash") {
    text = ForBash();
  } else if (shell == "zsh") {
    text = ForZsh();
  } else if (shell == "fish") {
    text = ForFish();
  } else {
    return absl::InvalidArgumentError(absl::StrCat("expected a shell, ", kShells, ", found \"", shell, "\""));
  }
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace snug::core::cli
