#!/bin/sh
# Stands for every program that a command of the documents names, by the name it is called by.
# costof runs in full where that takes no time, and otherwise as far as it goes without measuring.
case "${0##*/}" in
costof) ;;
cargo)
    [ "${1-} ${2-} ${3-}" = "run --release --" ] || exit 0
    shift 3
    ;;
srun | kubectl)
    # Without the options before the command.
    while [ $# -gt 0 ] && [ "$1" != costof ]; do shift; done
    [ $# -gt 0 ] || exit 0
    shift
    [ "$1" != worker ] || exec "$COSTOF" worker
    ;;
ssh | docker) exec "$COSTOF" worker ;;
*) exit 0 ;;
esac

words="$*"
only=
case " $words " in
*" --help "*) ;;
" time "*" -- "* | " against "*" -- "* | " bill -- "* | " bill "*" -- "*)
    # Before the words of the program.
    for word; do
        shift
        [ "$word" != -- ] || set -- "$@" --help
        set -- "$@" "$word"
    done
    ;;
*" --resume "* | *" --history "* | *" netns:"* | *" tcp:"* | *" --interleave "* | " ask "*" --peer "* | " send "* | " link "* | " time "* | " bill "* | " against "* | " verify "* | " qualify "* | " study "*" --sheet "* | " study "*" --collect "* | " study "*" --check "* | " study "*" --predictions "* | " place "*" --among "* | *" --save "* | " export "*" --format "*) only=--help ;;
" study "*" --run "* | " study " | *" --dry-run "*) ;;
" run "* | " study "*) only=--dry-run ;;
" ask "[a-z]* | " estimate "*)
    only=--run=run.jsonl
    for word; do
        shift
        [ "$word" = --measure ] || set -- "$@" "$word"
    done
    ;;
esac
[ -z "${COSTOF_ONLY_PARSE-}" ] || only=--help

code=0
"$COSTOF" "$@" $only || code=$?
case $code in
# A check that finds something, and a run that lacks what a question needs, are answers.
0 | 1 | 3) exit 0 ;;
esac
echo "exit code $code: costof $words" >&2
exit "$code"
