# at the prompt what statements change is kept without `set undo`; in a script it is not
printf 'x = 1\nx = 2\nundo\nx\nfor i in range(3) { x += 1 }\nx\n' | dlsh -n -i 2>&1 | grep -v -e '^$' -e '^dlsh [0-9]' -e '^help tells'
dlsh -n -c 'x = 1
x = 2
undo' 2>&1
echo "status $?"
