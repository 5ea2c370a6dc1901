# What a machine that ssh reaches executes: its own costof of this version, or else the copy that an earlier run left, or
# else a new copy, for which it asks the controller. `version`, and for a machine with a static build `machine`, `name`,
# `sum` and `size`, are set before. The login's shell may be any, so all of it is one word for it, between single quotes on
# one line: no single quote, no exclamation mark, no line whose end counts.
case "$(costof --version 2>/dev/null </dev/null)" in
"costof $version" | "costof $version "*) exec costof worker;;
esac;
fail() { echo "costof: $* (--remote-costof names a costof that is there)" >&2; exit 1; };
if [ -z "$name" ]; then
    command -v costof >/dev/null && exec costof worker;
    echo "costof: neither a costof here nor a static build for $(uname -m) to copy" >&2; exit 127;
fi;
set -f; umask 077;
# Whether a path is of the kind and mode that ls shows so, and this user's: no link, and nobody else may write there.
is_own() {
    mode=$2; set -- $(ls -ldn "$1" 2>/dev/null);
    case $1 in "$mode" | "$mode.") [ "$3" = "$(id -u)" ];; *) false;; esac;
};
is_whole() { [ "$(sha256sum <"$1")" = "$sum  -" ]; };
folder=${HOME:?}/.cache/costof; file=./$name; new=./.new-$(cat /proc/sys/kernel/random/uuid);
mkdir -p "$HOME/.cache" && { [ -d "$folder" ] || mkdir "$folder"; } || fail "cannot make $folder";
# From here on in the folder itself, wherever its name may lead meanwhile.
is_own "$folder" drwx------ && cd -P -- "$folder" && is_own . drwx------ || fail "$folder is not a folder of this user alone: remove it, or make its mode 0700";
command -v sha256sum >/dev/null || fail "no sha256sum, which checks the copy";
if is_own "$file" -rwx------ && is_whole "$file"; then exec "$file" worker; fi;
end() { rm -f "$new"; }; trap end EXIT; trap "exit 1" HUP INT PIPE TERM;
rm -f "$file" "$new" || fail "cannot replace $folder/$name";
echo "{\"is\":\"absent\",\"machine\":\"$machine\"}";
head -c "$size" >"$new" || fail "cannot write to $folder";
is_whole "$new" || fail "what arrived in $folder is not what was sent";
chmod 700 "$new" && mv "$new" "$file" || fail "cannot make $folder/$name";
exec "$file" worker
