# What cannot be predicted, and answers that are none.
for line in 'predict "word"' 'x = ones(2); predict x shape="a"' 'x = ones(2); predict x shape=[1.5]' 'x = ones(2); predict x "3"' \
    'w = param(ones(2)); predict w.grad' 'x = ones(2); predict(x)' 'x = ones(2); predict x [[1], [2, 3]]' 'z = complex(ones(2), ones(2)); predict z z'; do
    dlsh -n -c "$line" 2>&1
done
# a wrong line of input is told, and the question asked again
printf 'bogus\n"a"\n2\n1, 1\n' | dlsh -n -c 'x = ones(2); predict x' 2>&1
# words in place of answers; a variable of such a name stands in parentheses
printf 'h\n(q)\nhint\nq\n' | dlsh -n -c 'set record full; q = param(ones(2)); backward sum(q * q); predict q.grad; print("on")' 2>&1
printf 'skip\n?\ns\n' | dlsh -n -c 'x = ones(2); predict x' 2>&1
