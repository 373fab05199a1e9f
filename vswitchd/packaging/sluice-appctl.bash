# Completion of sluice-appctl: its own options, then the commands of the daemon that it talks to.
_sluice_appctl() {
    local current=${COMP_WORDS[COMP_CWORD]} index word words target=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        case $word in
        -t | --target)
            target=(-t "${COMP_WORDS[++index]}")
            ;;
        -T | --timeout | --format)
            ((index++))
            ;;
        -*) ;;
        *)
            # The arguments of a command are not known here.
            COMPREPLY=()
            return
            ;;
        esac
    done
    case $current in
    -*) words=$(sluice-appctl --help | grep -oE -- '--[a-z][a-z-]*') ;;
    *) words=$(sluice-appctl "${target[@]}" list-commands 2>/dev/null |
        sed -n 's/^  \([^ ]*\).*/\1/p') ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
}
complete -F _sluice_appctl sluice-appctl
