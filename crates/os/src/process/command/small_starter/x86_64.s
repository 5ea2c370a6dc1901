    mov r15, [rsp]
    mov rsi, [rsp + 16]
    xor ebx, ebx
2:
    movzx eax, byte ptr [rsi]
    test eax, eax
    jz 3f
    imul ebx, ebx, 10
    lea ebx, [rbx + rax - 48]
    inc rsi
    jmp 2b
3:
    mov eax, {getppid}
    syscall
    mov r14d, eax
    push 0
    call 7f
    call 8f
    cmp rax, 8
    jne 9f
    mov eax, {clone}
    mov edi, 0xc111
    xor esi, esi
    xor edx, edx
    xor r10d, r10d
    xor r8d, r8d
    syscall
    test rax, rax
    jnz 5f
    mov eax, {setpgid}
    xor edi, edi
    xor esi, esi
    syscall
    mov eax, {prctl}
    mov edi, 1
    mov esi, 9
    syscall
    mov eax, {getppid}
    syscall
    cmp eax, r14d
    jne 9f
    mov eax, {fcntl}
    mov edi, ebx
    mov esi, 2
    mov edx, 1
    syscall
    mov eax, {execve}
    mov rdi, [rsp + 32]
    lea rsi, [rsp + 40]
    lea rdx, [rsp + r15*8 + 24]
    syscall
    mov [rsp], rax
    call 7f
    jmp 9f
5:
    mov [rsp], rax
    mov r13, rax
    call 7f
    test r13, r13
    js 9f
6:
    call 8f
    cmp rax, -4    // EINTR
    je 6b
    cmp rax, 8
    je 9f
    mov rdi, r13
    neg rdi
    mov esi, 9
    mov eax, {kill}
    syscall
    jmp 9f
    // Sends the message.
7:
    mov eax, {write}
    mov edi, ebx
    lea rsi, [rsp + 8]
    mov edx, 8
    syscall
    ret
    // Receives an answer.
8:
    mov eax, {read}
    mov edi, ebx
    lea rsi, [rsp + 8]
    mov edx, 8
    syscall
    ret
9:
    mov eax, {exit_group}
    xor edi, edi
    syscall
