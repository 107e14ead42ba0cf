# What to do about a file that cannot be read or written: the missing folder, the nearest name.
touch file; mkdir folder; echo 1,2 >folder/data.csv
dlsh -n -k 2>&1 <<'END'
export nope/x.csv
save randn(3) "nope/deep/x.npy"
hist randn(9) out=file/x.svg
load "nope/x.npy"
load "foldr/x.npy"
load "other.npy"
save randn(3) "folder"
dataset("csv", "folder/dta.csv")
dataset("mnist", "nope/mnist")
read "nope/x.dlsh"
rescue file
END
dlsh folder/x.dlsh 2>&1
dlsh nope/x.dlsh 2>&1
true
