# Those of the named files that belong to part $PART of $PARTS; without these variables all of them.
printf '%s\n' "$@" | awk -v part="${PART:-0}" -v parts="${PARTS:-1}" 'NR % parts == part % parts'
